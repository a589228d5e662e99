// What agents say to each other, and the frames it travels in.
//
// A connection begins with the 8-byte greeting (its first byte tells the front door that no store client is
// calling), then frames follow in both directions: u32 length of the body, body = u8 kind + fields. Integers
// are little-endian, texts are a u64 length and bytes. A frame is decoded wholly before anything acts on it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "agent/control/lease.h"
#include "agent/model/collective_progress.h"
#include "agent/model/field_list.h"
#include "agent/model/job.h"
#include "store/base/bytes.h"
#include "store/base/result.h"

namespace dlaunch::agent {

inline constexpr std::uint8_t protocol_version = 8;
inline constexpr std::string_view greeting =
    "\xD1"
    "LAUNCH\x08";  // the last byte is protocol_version
// A world of max_nodes fits the first; the second is all a member has to say.
inline constexpr std::uint32_t max_frame_from_coordinator = 8U << 20;
inline constexpr std::uint32_t max_frame_from_member = 1U << 20;
inline constexpr std::uint64_t max_text = 1U << 18;
inline constexpr int max_nodes = 65'536;
inline constexpr int max_slots = 65'536;

// Each message has one list of its fields beside it, in the order of the wire: `io` writes them or reads them
// (agent/control/message_io.h).

// --- a member to the coordinator ---

// What is kept of a host's name.
inline constexpr std::size_t longest_host = 255;
// No role's name is longer.
inline constexpr std::size_t longest_role = 255;

struct Join {
  std::string job_id;
  int min_nodes = 0;
  int nnodes = 0;
  int max_restarts = 0;
  int node_rank = 0;  // the one it wants; -1: any
  int slots = 0;
  std::string host;
  std::string build;  // dlaunch's version, for the log
  AgentId agent = 0;
  // Of the last world that it was told of, where there was one: what the next coordinator must know.
  bool joined_once = false;
  bool stopped = true;  // nothing of it is left
  AgentId leader = 0;
  std::string leader_host{};
  std::uint32_t round = 0;
  int sticky_rank = -1;  // -1: it was a spare
  int nodes = 0;
  int restarts_used = 0;
  std::vector<Restart> restarts{};
  Duration age{};  // since the job's first round began
  Duration
      lease{};  // for how long from now workers may run on the last leader's node (agent/control/lease.h); of
                // an agent that has been in no world, which may have had a predecessor: on any
  Duration rest{};            // likewise, on other nodes that followed that leader
  std::int64_t stamp = 0;     // this node's clock, as Beat's
  bool stays = true;          // also where this coordinator does not lead yet: it counts for its quorum
  std::string rules{};        // agent/model/job_rules.h
  std::string role{};         // of its workers: only compared, never shown
  std::string unfit{};        // why this node cannot take part, and only joins to say so; empty: it can
  std::uint64_t fencing = 0;  // the highest token that this agent knows (agent/model/fencing.h); 0: none

  bool operator==(const Join&) const = default;
};
void fields(auto& io, Of<Join> auto& m) {
  io(m.job_id, m.min_nodes, m.nnodes, m.max_restarts, m.node_rank, m.slots, m.host, m.build, m.agent,
     m.joined_once, m.stopped, m.leader, m.leader_host, m.round, m.sticky_rank, m.nodes, m.restarts_used,
     m.restarts, m.age, m.lease, m.rest, m.stamp, m.stays, m.rules, m.role, m.unfit, m.fencing);
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
// This node was told to leave; its workers are being stopped.
struct Leave {
  Failure failure;
  bool operator==(const Leave&) const = default;
};
void fields(auto& io, Of<Leave> auto& m) { io(m.failure); }

// What a Beat says of the time.
inline std::int64_t stamp_of(TimePoint time) { return time.time_since_epoch().count(); }

// The sender is there. A member's is answered with the coordinator's. Both carry the coordinator's clock:
// what it said last, and what of that came back, so that it knows for how long it may count on a node
// whatever the network or a pause does to the messages (its lease, as in Gray and Cheriton, "Leases", 1989).
//
// The lease in the other direction is the workers': a member's beat carries the member's clock, too, and the
// answer brings it back with what the leader grants from then on.
struct Heartbeat {
  std::int64_t stamp = 0;  // the coordinator's clock, in nanoseconds that only its owner can read
  std::int64_t own = 0;    // of a member: its own
  Grant grant{};           // of a coordinator
  bool operator==(const Heartbeat&) const = default;
};
void fields(auto& io, Of<Heartbeat> auto& m) { io(m.stamp, m.own, m.grant); }

// A node was told to end, and its workers get notice (--preempt-signal). A member's is passed on to the
// others of the round, whose workers get theirs: what they save, they may have to save together.
struct Preempt {
  std::uint32_t round = 0;
  std::string node_name{};  // the node, for people; a member leaves it empty
  bool operator==(const Preempt&) const = default;
};
void fields(auto& io, Of<Preempt> auto& m) { io(m.round, m.node_name); }

// Where this node's workers stand: sent while nothing of them moves (--hang-timeout), once when it does
// again, and when a round is stopped.
struct Progress {
  // More rows than these, over all groups, are left out.
  static constexpr std::size_t max_rows = 8192;
  static constexpr std::size_t max_groups = 1024;

  std::uint32_t round = 0;
  Duration quiet{};     // nothing has moved for so long; zero: it does
  bool inside = false;  // a worker is in a collective, or waits for other ranks in another way
  std::vector<GroupProgress> groups;
  bool operator==(const Progress&) const = default;
};
void fields(auto& io, Of<Progress> auto& m) {
  io(m.round, m.quiet, m.inside);
  io.list(m.groups, static_cast<std::uint32_t>(Progress::max_groups));
}

// Without what is beyond the limits of Progress.
Progress bounded(Progress progress);

// The first and only message of a connection: which coordinator leads this job? A node that waits at an
// endpoint that does not lead sends it to the others. Answered with a Welcome or a Refused, and the end of
// the connection. It changes nothing in the coordinator, and the sender is no member by it.
struct Ask {
  std::string job_id;
  bool operator==(const Ask&) const = default;
};
void fields(auto& io, Of<Ask> auto& m) { io(m.job_id); }

// --- the coordinator to a member ---

// The Join was taken; `leads`: by the job's coordinator. A leader may repeat it. Otherwise by one that would
// be, if enough nodes came. Answered with a Beat. `elsewhere`: the job went on without this node. Where the
// sender leads, a world that is newer than the node's was announced, and does not wait for the end of what
// the node still runs; where it does not, it follows another, and is not worth waiting for.
struct Welcome {
  bool leads = true;
  bool elsewhere = false;
  std::int64_t stamp = 0;  // as Beat's
  Grant grant{};
  std::uint64_t fencing = 0;  // as Join's
  bool operator==(const Welcome&) const = default;
};
void fields(auto& io, Of<Welcome> auto& m) { io(m.leads, m.elsewhere, m.stamp, m.grant, m.fencing); }

struct Refused {
  std::string why;
  bool for_good = true;  // otherwise it may be another time
  bool operator==(const Refused&) const = default;
};
void fields(auto& io, Of<Refused> auto& m) { io(m.why, m.for_good); }
struct NewWorld {
  World world;
  Grant grant{};
  bool operator==(const NewWorld&) const = default;
};
void fields(auto& io, Of<NewWorld> auto& m) { io(m.world, m.grant); }
// Stop the workers of this round and say Stopped.
struct StopRound {
  std::uint32_t round = 0;
  std::string why;
  bool at_once = false;  // by SIGKILL: another may lead, and start theirs
  bool operator==(const StopRound&) const = default;
};
void fields(auto& io, Of<StopRound> auto& m) { io(m.round, m.why, m.at_once); }
// The job is over: stop what still runs, say Stopped, exit like this.
struct End {
  Outcome outcome;
  bool operator==(const End&) const = default;
};
void fields(auto& io, Of<End> auto& m) { io(m.outcome); }

// What a node would like to know while it waits: for whom, since when, until when. For its person.
struct Notice {
  std::string text;
  bool operator==(const Notice&) const = default;
};
void fields(auto& io, Of<Notice> auto& m) { io(m.text); }
// What has happened since the world was told, for the next coordinator.
struct RestartHistory {
  int restarts_used = 0;
  std::vector<Restart> restarts{};
  bool operator==(const RestartHistory&) const = default;
};
void fields(auto& io, Of<RestartHistory> auto& m) { io(m.restarts_used, m.restarts); }

// --- before all others, where the job has a secret (agent/control/handshake.h) ---

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
using Message =
    std::variant<Join, Failed, Done, Stopped, Leave, Heartbeat, Welcome, Refused, NewWorld, StopRound, End,
                 Hello, Challenge, Proof, Progress, Notice, RestartHistory, Preempt, Ask>;

// The whole frame, length included.
std::string encode(const Message& message);

// One body, without its length. An error names what is wrong with it.
Result<Message> decode(ByteSpan body);

// Cuts a stream of bytes into messages. After an error the stream is of no use any more. Whoever begins with
// something else than a message is no dlaunch, and the error says so.
class FrameReader {
 public:
  // The accepting side hears a member, which begins with the greeting.
  static FrameReader from_member() { return {true, max_frame_from_member}; }
  static FrameReader from_coordinator() { return {false, max_frame_from_coordinator}; }

  void append(ByteSpan bytes);
  // The next whole message; nothing when more bytes are needed.
  Result<std::optional<Message>> next();

 private:
  FrameReader(bool expect_greeting, std::uint32_t limit) : greeting_left_(expect_greeting), limit_(limit) {}

  bool greeting_left_;
  bool is_dlaunch_ = false;  // as its first message, or its greeting, has shown
  std::uint32_t limit_;
  std::string buffer_;
};

}  // namespace dlaunch::agent
