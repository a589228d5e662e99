// The messages between agents, and their frames.
//
// A connection begins with the 8-byte greeting (its first byte shows that the peer is no store client), then
// frames follow in both directions: u32 length of the body, body = u8 kind + fields. Integers are
// little-endian; texts are a u64 length and bytes. A frame is decoded wholly before anything acts on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/control/lease.h"
#include "agent/model/arrivals.h"
#include "agent/model/collective_progress.h"
#include "agent/model/field_list.h"
#include "agent/model/job.h"
#include "agent/model/node_ranks.h"
#include "agent/model/pmi_entry.h"
#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch::agent {

inline constexpr std::uint8_t protocol_version = 17;
inline constexpr std::string_view greeting =
    "\xD1"
    "LAUNCH\x11";  // the last byte is protocol_version
// A world of max_nodes fits the first. Messages of a member are shorter.
inline constexpr std::uint32_t max_frame_from_coordinator = 8U << 20;
inline constexpr std::uint32_t max_frame_from_member = 1U << 20;
inline constexpr std::uint64_t max_text = 1U << 18;
inline constexpr int max_nodes = 65'536;
inline constexpr int max_slots = 65'536;

// Each message has one list of its fields beside it, in the order of the wire: `io` writes them or reads them
// (agent/control/message_io.h).

// --- a member to the coordinator ---

// A longer host name is cut.
inline constexpr std::size_t longest_host = 255;
// A longer name of a role is not allowed.
inline constexpr std::size_t longest_role = 255;

struct Join {
  std::string job_id;
  int node_rank = 0;  // the requested one; -1: any
  int slots = 0;
  std::string host;
  std::string build;  // dlaunch's version, for the log
  AgentId agent = 0;
  // The last world that this node was in, if any: what the next coordinator must know.
  bool joined_once = false;
  bool stopped = true;  // nothing of that world is left here
  AgentId leader = 0;
  std::string leader_host{};
  std::uint32_t round = 0;
  int sticky_rank = -1;  // -1: it was a spare
  int nodes = 0;
  int restarts_used = 0;
  std::vector<Restart> restarts{};
  Duration age{};    // since the job's first round began
  Duration lease{};  // how long from now workers may run on the last leader's node (agent/control/lease.h);
                     // on any node, if that leader was a spare, or for an agent that has been in no world
                     // but may have had a predecessor
  Duration rest{};   // the same for other nodes that followed that leader
  std::int64_t stamp = 0;     // this node's clock, as in Heartbeat
  bool stays = true;          // also if this coordinator does not lead yet: the node counts for its quorum
  std::string rules{};        // of the job, as this node was started (agent/model/job_rules.h)
  std::string role{};         // of the workers: only compared, never shown
  std::string unfit{};        // why this node cannot take part and joins only to report it; empty: it can
  std::uint64_t fencing = 0;  // the highest token known to this agent (agent/model/fencing.h); 0: none

  bool operator==(const Join&) const = default;
};
void fields(auto& io, Of<Join> auto& m) {
  io(m.job_id, m.node_rank, m.slots, m.host, m.build, m.agent, m.joined_once, m.stopped, m.leader,
     m.leader_host, m.round, m.sticky_rank, m.nodes, m.restarts_used, m.restarts, m.age, m.lease, m.rest,
     m.stamp, m.stays, m.rules, m.role, m.unfit, m.fencing);
}
// A worker of this node failed in `failure.round`, or is is_suspect(); the others are being stopped.
struct Failed {
  Failure failure;
  Duration age{};  // how long before this was sent
  bool operator==(const Failed&) const = default;
};
void fields(auto& io, Of<Failed> auto& m) { io(m.failure, m.age); }
// All workers of this node have returned 0.
struct Done {
  std::uint32_t round = 0;
  bool operator==(const Done&) const = default;
};
void fields(auto& io, Of<Done> auto& m) { io(m.round); }
// Nothing of this round is left on this node.
struct Stopped {
  std::uint32_t round = 0;
  bool operator==(const Stopped&) const = default;
};
void fields(auto& io, Of<Stopped> auto& m) { io(m.round); }
// This node was asked to leave; its workers are being stopped.
struct Leave {
  Failure failure;
  bool operator==(const Leave&) const = default;
};
void fields(auto& io, Of<Leave> auto& m) { io(m.failure); }

// The clock as a Heartbeat carries it.
inline std::int64_t stamp_of(TimePoint time) { return time.time_since_epoch().count(); }

// The sender is alive. The coordinator answers a member's heartbeat with its own. Both carry the
// coordinator's clock: the coordinator sends it, and the member returns it. So the coordinator knows how long
// it may count on a node, whatever the network or a pause does to the messages (a lease, as in Gray and
// Cheriton, "Leases", 1989).
//
// The workers' lease goes in the other direction: a member's heartbeat carries the member's clock, too, and
// the answer returns it with the time that the leader grants from then on.
struct Heartbeat {
  std::int64_t stamp = 0;  // the coordinator's clock, in nanoseconds that only its owner can read
  std::int64_t own = 0;    // a member's own clock
  Grant grant{};           // from a coordinator
  bool operator==(const Heartbeat&) const = default;
};
void fields(auto& io, Of<Heartbeat> auto& m) { io(m.stamp, m.own, m.grant); }

// A node is being preempted, and its workers get notice (--preempt-signal). The coordinator passes a member's
// message on to the other nodes of the round, whose workers get notice, too: they may have to save together.
struct Preempt {
  std::uint32_t round = 0;
  std::string node_name{};  // the node, for messages; a member leaves it empty
  bool operator==(const Preempt&) const = default;
};
void fields(auto& io, Of<Preempt> auto& m) { io(m.round, m.node_name); }

// The progress of this node's workers: sent while none of them moves (--hang-timeout, --hang-note), once when
// one moves again, and when a round is stopped.
struct Progress {
  // More rows and call sites than these, over all groups, are left out.
  static constexpr std::size_t max_rows = 6144;
  static constexpr std::size_t max_call_sites = 512;
  static constexpr std::size_t max_groups = 1024;

  std::uint32_t round = 0;
  Duration quiet{};     // how long nothing has moved; zero: something moves
  bool inside = false;  // a worker is in a collective, or waits for other ranks otherwise
  std::vector<GroupProgress> groups;
  Duration polling{};  // how long a worker has polled for a message without a long pause; zero: none does
  Duration idle{};  // how long no worker has used the CPU or printed anything; zero: one has, or has a page
  bool operator==(const Progress&) const = default;
};
void fields(auto& io, Of<Progress> auto& m) {
  io(m.round, m.quiet, m.inside, m.polling, m.idle);
  io.list(m.groups, static_cast<std::uint32_t>(Progress::max_groups));
}

// Drops what is beyond the limits of Progress.
Progress bounded(Progress progress);

// The first and only message of a connection: which coordinator leads this job? A node that waits at an
// endpoint that does not lead sends it to the others. The coordinator answers with Welcome or Refused and
// ends the connection. Nothing changes in the coordinator, and the sender does not become a member.
struct Ask {
  std::string job_id;
  bool operator==(const Ask&) const = default;
};
void fields(auto& io, Of<Ask> auto& m) { io(m.job_id); }

// All ranks of this node are in the barrier of this number (agent/pmi/pmi_server.h), and have published these
// values since the barrier before; several messages if one has no room for all. `returned_rank`: instead, a
// rank of this node has returned 0 and will be in no further barrier; -1: none. `waits`: other ranks of this
// node wait for that one in a barrier.
struct PmiEnter {
  std::uint32_t round = 0;
  std::uint32_t barrier = 0;
  std::vector<PmiEntry> entries{};
  bool last = true;
  int returned_rank = -1;
  bool waits = false;
  bool operator==(const PmiEnter&) const = default;
};
void fields(auto& io, Of<PmiEnter> auto& m) {
  io(m.round, m.barrier, m.last, m.returned_rank, m.waits);
  io.list(m.entries, most_pmi_entries_of_message);
}

// What this node's ranks do: the answer to RanksRequest.
struct RanksReport {
  NodeRanks ranks{};
  bool operator==(const RanksReport&) const = default;
};
void fields(auto& io, Of<RanksReport> auto& m) { io(m.ranks); }

// Where the time of this node's ranks went until now: before Done and Stopped.
struct TimesReport {
  TimeSums times{};
  bool operator==(const TimesReport&) const = default;
};
void fields(auto& io, Of<TimesReport> auto& m) { io(m.times); }
// What is new of the arrivals of this node's ranks at collectives. Answered with LatenessReport.
struct ArrivalsReport {
  std::uint32_t round = 0;
  Arrivals arrivals{};
  bool operator==(const ArrivalsReport&) const = default;
};
void fields(auto& io, Of<ArrivalsReport> auto& m) { io(m.round, m.arrivals); }

// Where the ranks of this node are by the records of PyTorch: the answer to InspectionRequest. Empty: they
// are not known. At most Progress::max_rows and Progress::max_groups.
struct Inspected {
  std::uint32_t round = 0;
  std::vector<GroupProgress> groups{};
  bool operator==(const Inspected&) const = default;
};
void fields(auto& io, Of<Inspected> auto& m) {
  io(m.round);
  io.list(m.groups, static_cast<std::uint32_t>(Progress::max_groups));
}

// --- the coordinator to a member ---

// The Join was accepted. `leads`: by the job's leader, which may repeat it; otherwise by a coordinator that
// would lead if enough nodes came. Answered with a Heartbeat. `elsewhere`: the job goes on without this node.
// If the sender leads, a newer world than the node's was announced, and does not wait for the workers that
// the node still runs. If the sender does not lead, it follows another coordinator, and the node should not
// wait for it.
struct Welcome {
  bool leads = true;
  bool elsewhere = false;
  std::int64_t stamp = 0;  // as in Heartbeat
  Grant grant{};
  std::uint64_t fencing = 0;          // as in Join
  std::int64_t unix_minus_stamp = 0;  // the coordinator's wall clock minus that of `stamp`, in nanoseconds
  bool operator==(const Welcome&) const = default;
};
void fields(auto& io, Of<Welcome> auto& m) {
  io(m.leads, m.elsewhere, m.stamp, m.grant, m.fencing, m.unix_minus_stamp);
}

struct Refused {
  std::string why;
  bool for_good = true;  // otherwise the node may try again
  std::string remedy{};  // as in Failure
  bool operator==(const Refused&) const = default;
};
void fields(auto& io, Of<Refused> auto& m) { io(m.why, m.for_good, m.remedy); }
struct NewWorld {
  World world;
  Grant grant{};
  bool operator==(const NewWorld&) const = default;
};
void fields(auto& io, Of<NewWorld> auto& m) { io(m.world, m.grant); }
// Stop the workers of this round, then send Stopped.
struct StopRound {
  std::uint32_t round = 0;
  std::string why;
  bool at_once = false;  // by SIGKILL: another leader may start its own workers
  Duration unnoticed{};  // as in Failure
  bool operator==(const StopRound&) const = default;
};
void fields(auto& io, Of<StopRound> auto& m) { io(m.round, m.why, m.at_once, m.unnoticed); }
// The job is over: stop what still runs, send Stopped, exit with this outcome.
struct End {
  Outcome outcome;
  bool operator==(const End&) const = default;
};
void fields(auto& io, Of<End> auto& m) { io(m.outcome); }

// A message for the user of a node that waits: for which nodes, since when, until when.
struct Notice {
  std::string text;
  bool operator==(const Notice&) const = default;
};
void fields(auto& io, Of<Notice> auto& m) { io(m.text); }
// The restarts since the world was announced, for the next coordinator.
struct RestartHistory {
  int restarts_used = 0;
  std::vector<Restart> restarts{};
  bool operator==(const RestartHistory&) const = default;
};
void fields(auto& io, Of<RestartHistory> auto& m) { io(m.restarts_used, m.restarts); }

// Others wait for this rank, which runs on the member's node: one of the next Progress messages is to have
// its stack (RankProgress::stack), if it can be had.
struct StackRequest {
  std::uint32_t round = 0;
  int rank = 0;
  bool operator==(const StackRequest&) const = default;
};
void fields(auto& io, Of<StackRequest> auto& m) { io(m.round, m.rank); }

// The ranks of all nodes are in this barrier, and it is over with the message that is the last of it. The
// values of all nodes.
struct PmiRelease {
  std::uint32_t round = 0;
  std::uint32_t barrier = 0;
  std::vector<PmiEntry> entries{};
  bool last = true;
  bool operator==(const PmiRelease&) const = default;
};
void fields(auto& io, Of<PmiRelease> auto& m) {
  io(m.round, m.barrier, m.last);
  io.list(m.entries, most_pmi_entries_of_message);
}

// Somebody looks at the job's page: report what the node's ranks do, with the last lines of this rank, if it
// is there.
struct RanksRequest {
  int rank_with_lines = -1;
  bool operator==(const RanksRequest&) const = default;
};
void fields(auto& io, Of<RanksRequest> auto& m) { io(m.rank_with_lines); }

// The job may hang, and its workers have no pages: ask them where they are, and look at their stacks.
struct InspectionRequest {
  std::uint32_t round = 0;
  bool operator==(const InspectionRequest&) const = default;
};
void fields(auto& io, Of<InspectionRequest> auto& m) { io(m.round); }

// By the reports of all nodes so far.
struct LatenessReport {
  std::uint32_t round = 0;
  Lateness lateness{};
  bool operator==(const LatenessReport&) const = default;
};
void fields(auto& io, Of<LatenessReport> auto& m) { io(m.round, m.lateness); }

// --- before all others, if the job has a secret (agent/control/handshake.h) ---

struct Hello {
  std::string nonce;
  bool operator==(const Hello&) const = default;
};
void fields(auto& io, Of<Hello> auto& m) { io(m.nonce); }
struct Challenge {
  std::string nonce;
  std::string mac;
  bool operator==(const Challenge&) const = default;
};
void fields(auto& io, Of<Challenge> auto& m) { io(m.nonce, m.mac); }
struct Proof {
  std::string mac;
  bool operator==(const Proof&) const = default;
};
void fields(auto& io, Of<Proof> auto& m) { io(m.mac); }

// A message's number on the wire is its place here, from 1: a new one goes to the end.
using Message = std::variant<Join, Failed, Done, Stopped, Leave, Heartbeat, Welcome, Refused, NewWorld,
                             StopRound, End, Hello, Challenge, Proof, Progress, Notice, RestartHistory,
                             Preempt, Ask, StackRequest, PmiEnter, PmiRelease, RanksRequest, RanksReport,
                             InspectionRequest, Inspected, TimesReport, ArrivalsReport, LatenessReport>;

// The whole frame, length included.
std::string encode(const Message& message);

// One body, without its length. An error names what is wrong with it.
Result<Message> decode(ByteSpan body);

// Cuts a stream of bytes into messages. After an error the stream cannot be used any more. If the peer begins
// with something other than a message, it is not dlaunch, and the error says so.
class FrameReader {
 public:
  // For the accepting side: a member begins with the greeting.
  static FrameReader from_member() { return {true, max_frame_from_member}; }
  static FrameReader from_coordinator() { return {false, max_frame_from_coordinator}; }

  void append(ByteSpan bytes);
  // The next whole message; nothing when more bytes are needed.
  Result<std::optional<Message>> next();

 private:
  FrameReader(bool expect_greeting, std::uint32_t limit) : greeting_left_(expect_greeting), limit_(limit) {}

  bool greeting_left_;
  bool is_dlaunch_ = false;  // shown by its first message or its greeting
  std::uint32_t limit_;
  std::string buffer_;
};

}  // namespace dlaunch::agent
