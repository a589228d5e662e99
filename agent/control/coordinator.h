// Decides which nodes are in the job and which world is current: a pure state machine. Each agent that serves
// an endpoint of the job has one. One decision is one message to each member.
//
//   standby --enough nodes came here--> gathering --enough, and no more expected--> running
//      ^                                   ^   |                                      |
//      |  fewer than a majority            |   | deadline        a failure with restarts left, or nodes
//      +-----------------------------------+   |                 came, went or were lost
//      |                                   |   |                                      v
//      +-------------------------------- too few --all have stopped--------------- stopping --enough-->
//      running
//                                              |
//   running --a failure without restarts, a loss that nothing may replace, a signal--> collecting
//                                              v                                      |
//                                           ending <--all have stopped, or time enough+
//                                              |
//                                              +--all have stopped or are lost--> ended
//
// The first reported failure stops all workers at once. If it blames a worker that may still run, that worker
// first has blamed_rank_grace to end by itself. More failures of the round are collected while the workers
// stop, each with its age, so that the cause is the failure that happened first, not the one that was
// reported first (agent/model/root_cause.h).
//
// Messages carry their round; a message of another round than the current one is stale and ignored.
//
// If a job has several endpoints, each has a coordinator, and one of them leads: the one that has the
// connections of a quorum of nodes. A node has one connection at a time, and a quorum is more than half of
// all nodes that may take part, so no two of them lead at once. If the agents elect their leader
// (agent/election/election.h), the elected one leads until the election's lease ends.
//
// A world begins when nothing of an earlier one can run any more: each node that is here has reported that,
// and the leases of the nodes that are not here are over (agent/control/lease.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/control/absent_nodes.h"
#include "agent/control/admission.h"
#include "agent/control/earlier_worlds.h"
#include "agent/control/failure_collector.h"
#include "agent/control/hang_detector.h"
#include "agent/control/hang_notes.h"
#include "agent/control/job_ending.h"
#include "agent/control/last_call.h"
#include "agent/control/leadership.h"
#include "agent/control/lease.h"
#include "agent/control/loss.h"
#include "agent/control/membership.h"
#include "agent/control/messages.h"
#include "agent/control/paced_looks.h"
#include "agent/control/pmi_barrier.h"
#include "agent/control/ranks_reports.h"
#include "agent/control/waiting.h"
#include "agent/model/event.h"
#include "agent/model/log_message.h"
#include "agent/model/stragglers.h"
#include "agent/model/suspension_detector.h"
#include "agent/model/world_view.h"

namespace dlaunch::agent {

// --- events ---

struct FromMember {
  MemberId member = 0;
  Message message;
  std::string address{};  // of the member, without port; empty: this process
};
struct MemberLost {
  MemberId member = 0;
  Loss loss;
};
// Answers ArmCoordinatorTimer: the requested time has come.
struct CoordinatorTimer {};
// This agent leads by election until then, unless a later event extends that; none: it does not lead.
struct LeadsUntil {
  std::optional<TimePoint> until;
};
// This agent must stop, or its node cannot take part, and its member has no connection here to report that.
struct AgentLeaves {
  Failure failure;
};
// An agent was refused before it could join: it has another protocol version or another secret.
struct AgentRefused {
  std::string peer;  // with its address
  std::string why;
  std::string remedy{};  // what the user can do; empty: nothing is known
};
// Whether this agent's own member follows a coordinator elsewhere.
struct FollowsAnother {
  bool yes = false;
};

// Somebody looks at the job's page, and at the last lines of this rank; -1: of none.
struct RanksWanted {
  int rank_with_lines = -1;
};

using CoordinatorEvent = std::variant<FromMember, MemberLost, CoordinatorTimer, AgentLeaves, AgentRefused,
                                      FollowsAnother, LeadsUntil, RanksWanted>;

// --- actions ---

struct ToMember {
  MemberId member = 0;
  Message message;
  bool operator==(const ToMember&) const = default;
};
// Messages that were sent before still reach the member.
struct DropMember {
  MemberId member = 0;
  bool operator==(const DropMember&) const = default;
};
// Opens a new, empty store for the round that is about to be announced, and cuts the connections of the last
// round. Workers of lost nodes may still run: the store rejects connections from `blocked_hosts`.
struct OpenStore {
  std::uint32_t round = 0;
  std::set<std::string> blocked_hosts;
  bool operator==(const OpenStore&) const = default;
};
// Replaces the time requested before.
struct ArmCoordinatorTimer {
  TimePoint at;
  bool operator==(const ArmCoordinatorTimer&) const = default;
};
struct CoordinatorEnded {
  bool operator==(const CoordinatorEnded&) const = default;
};

using CoordinatorAction =
    std::variant<ToMember, DropMember, OpenStore, ArmCoordinatorTimer, CoordinatorEnded, Event, LogMessage>;
using CoordinatorActions = std::vector<CoordinatorAction>;

class Coordinator {
 public:
  enum class State { standby, gathering, running, stopping, collecting, ending, ended };

  // How long the coordinator waits for the end after the members' own stop timeout.
  static constexpr Duration end_margin = std::chrono::seconds(30);
  // How long after the first failure others are collected to find the cause, unless all nodes stop before.
  static constexpr Duration collecting_time = std::chrono::seconds(1);
  // When a wait is reported first, and then again.
  static constexpr Duration first_report = Waiting::first_report;
  static constexpr Duration next_report = Waiting::next_report;
  // How long a new leader waits for the nodes that followed the last one.
  static constexpr Duration settling_time = std::chrono::seconds(1);

  // `own`: the address of this coordinator. `agent`: its agent, which serves the store. `unix_us`: the wall
  // clock now, in microseconds. `had_predecessor`: see EarlierWorlds.
  Coordinator(JobSpec job, Address own, AgentId agent, TimePoint now, std::int64_t unix_us,
              bool had_predecessor = false);

  // The actions before the first event.
  CoordinatorActions begin();
  CoordinatorActions step(TimePoint now, const CoordinatorEvent& event);

  [[nodiscard]] State state() const { return state_; }
  // It decides about the job: it admits nodes, or reports to nodes that come back how the job has ended.
  [[nodiscard]] bool leads() const { return state_ != State::standby && state_ != State::ended; }
  // Nodes of its worlds may have workers or a lease: a successor must be told that it had a predecessor.
  [[nodiscard]] bool may_leave_workers(TimePoint now) const;
  // How the job has ended, if this coordinator has ended it.
  [[nodiscard]] std::optional<JobEnding> ending() const;
  [[nodiscard]] std::uint32_t round() const { return world_.round; }
  [[nodiscard]] int restarts_used() const { return world_.restarts_used; }
  [[nodiscard]] WorldView view(TimePoint now) const;
  // What the ranks of the nodes do, by the last reports; requested by RanksWanted. By node rank.
  [[nodiscard]] std::vector<NodeRanks> ranks() const { return ranks_reports_.nodes(); }
  // By the reports of all nodes of the round.
  [[nodiscard]] const Stragglers& stragglers() const { return stragglers_; }
  // What it waits for: "nodes 1 and 3 of 4"; empty if it does not wait.
  [[nodiscard]] std::string waiting_for(TimePoint now) const;

 private:
  void on_message(TimePoint now, const FromMember& from, CoordinatorActions& out);
  void on_join(TimePoint now, MemberId member, Join join, const std::string& address,
               CoordinatorActions& out);
  void on_unfit(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out);
  void on_ask(TimePoint now, MemberId member, const Ask& ask, CoordinatorActions& out) const;
  void take_in(TimePoint now, const Membership::Node& node, CoordinatorActions& out);
  void on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out);
  void stop_for(TimePoint now, const Failure& failure, CoordinatorActions& out);
  void on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out);
  void on_stopped(TimePoint now, MemberId member, const Stopped& stopped, CoordinatorActions& out);
  void on_leave(TimePoint now, MemberId member, const Leave& leave, CoordinatorActions& out);
  void on_heartbeat(TimePoint now, MemberId member, const Heartbeat& heartbeat, CoordinatorActions& out);
  void on_preempt(MemberId member, const Preempt& preempt, CoordinatorActions& out);
  void on_progress(TimePoint now, MemberId member, const Progress& progress, CoordinatorActions& out);
  void on_pmi_enter(TimePoint now, MemberId member, const PmiEnter& enter, CoordinatorActions& out);
  void on_arrivals(TimePoint now, MemberId member, const ArrivalsReport& report, CoordinatorActions& out);
  [[nodiscard]] Lateness lateness(TimePoint now, const Membership::Node& node);
  void request_ranks(TimePoint now, const RanksWanted& wanted, CoordinatorActions& out);
  void look_for_stall(TimePoint now, CoordinatorActions& out);
  void stop_hanging_world(TimePoint now, CoordinatorActions& out);
  [[nodiscard]] Duration stall() const;
  void note_stall(CoordinatorActions& out) const;
  void request_stack(CoordinatorActions& out);
  void report_stack(int rank, CoordinatorActions& out) const;
  [[nodiscard]] std::string advice_for_stall() const;
  void note_if_idle(CoordinatorActions& out);
  void note_idle(Duration idle, CoordinatorActions& out) const;
  void on_inspected(MemberId member, const Inspected& inspected, CoordinatorActions& out);
  void report_records(CoordinatorActions& out) const;
  void on_agent_leaves(TimePoint now, const Failure& failure, CoordinatorActions& out);
  void on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out);
  void on_timer(TimePoint now, CoordinatorActions& out);
  void drop_silent_members(TimePoint now, CoordinatorActions& out);
  void end_after_join_timeout(TimePoint now, CoordinatorActions& out);
  void report(TimePoint now, CoordinatorActions& out);
  void rearm(TimePoint now, CoordinatorActions& out);

  // Taking and losing the lead.
  void on_election(TimePoint now, const LeadsUntil& leads, CoordinatorActions& out);
  [[nodiscard]] int fewest() const;
  void enforce_fencing(TimePoint now, CoordinatorActions& out);
  [[nodiscard]] Welcome welcome(TimePoint now, const Membership::Node& node, bool leads, bool elsewhere);
  void announce_leader(TimePoint now, bool leads, CoordinatorActions& out);
  // A newer world than its own has been announced.
  [[nodiscard]] bool was_superseded(const Membership::Node& node) const;
  void learn_from(TimePoint now, const Join& join);
  void learn_fencing(MemberId member, const Join& join);
  [[nodiscard]] bool has_fencing(TimePoint now, CoordinatorActions& out);
  void record_lost_leader(TimePoint now, const Join& of_last_world, CoordinatorActions& out);
  void lead_if_enough(TimePoint now, CoordinatorActions& out);
  void lose_leadership(TimePoint now, CoordinatorActions& out);
  void resign(CoordinatorActions& out);

  // From one world to the next.
  void gather(TimePoint now, int enough, Duration patience, CoordinatorActions& out);
  void announce_when_complete(TimePoint now, CoordinatorActions& out);
  void announce_world(TimePoint now, CoordinatorActions& out);
  // `unnoticed`: as in Failure, if a failure is the reason.
  void stop_world(TimePoint now, const std::string& why, CoordinatorActions& out, Duration unnoticed = {});
  void go_on_when_all_stopped(TimePoint now, CoordinatorActions& out);
  void go_on(TimePoint now, CoordinatorActions& out);
  void record_restart(const Restart& entry, Duration delay, CoordinatorActions& out);
  void leave_out(const Failure& cause, CoordinatorActions& out);

  // The leases of the members (agent/control/lease.h).
  [[nodiscard]] Grant grant_to(TimePoint now, const Membership::Node& node);
  [[nodiscard]] TimePoint may_begin_at();

  void on_node_lost(TimePoint now, const Membership::Node& node, const Failure& failure,
                    CoordinatorActions& out);
  [[nodiscard]] bool may_go_on() const;

  // From the first failure to the end.
  void record(TimePoint when, const Failure& failure);
  void collect(TimePoint now);
  void end_the_job_by(TimePoint now, const Failure& cause, CoordinatorActions& out);
  void end_failed(TimePoint now, CoordinatorActions& out);
  void end(TimePoint now, Outcome outcome, CoordinatorActions& out);
  void end_when_all_stopped(TimePoint now, CoordinatorActions& out);
  bool answers_absent_nodes(TimePoint now, CoordinatorActions& out);
  void on_timer_at_the_end(TimePoint now, CoordinatorActions& out);

  static void refuse(MemberId member, Refused refused, CoordinatorActions& out);
  [[nodiscard]] Failure stopped_by_signal(const Membership::Node& node) const;
  [[nodiscard]] Failure lost_node(const Membership::Node& node, std::string why) const;
  [[nodiscard]] Failure disconnected(TimePoint now, const Membership::Node& node, const Loss& loss);
  [[nodiscard]] Event event_of(EventKind kind, const Membership::Node& node, std::string text) const;
  [[nodiscard]] std::string name_of(const Membership::Node& node) const;
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] std::string not_stopped() const;
  // The node ranks that are missing; empty: the nodes need none.
  [[nodiscard]] std::vector<int> missing_ranks() const;
  [[nodiscard]] bool restarts_left() const { return world_.restarts_used < job_.max_restarts; }

  JobSpec job_;
  LeaseRules leases_;
  AgentId agent_;
  State state_;
  Membership membership_;
  Leadership leadership_;
  std::int64_t unix_minus_stamp_;      // of this host; see Welcome
  std::map<AgentId, TimeSums> times_;  // as last reported; also of nodes that were lost
  EarlierWorlds earlier_worlds_;
  Admission admission_;
  bool follows_another_ = false;

  World world_;          // the current one, or the last
  bool formed_ = false;  // there was one
  std::uint32_t next_round_ = 0;
  TimePoint job_began_;  // its first round, as far as this coordinator knows
  TimePoint round_began_;

  Waiting waiting_;  // while gathering, or until workers have stopped
  LastCall last_call_;
  TimePoint not_before_;               // of the restart that was decided: --restart-backoff
  std::optional<TimePoint> check_at_;  // for silent nodes
  std::optional<TimePoint> armed_;
  SuspensionDetector suspension_;
  TimePoint stop_deadline_;

  FailureCollector failures_;   // of the current round
  HangDetector hang_detector_;  // of the current round's workers
  PacedLooks stall_looks_;
  HangNotes hang_notes_;
  HangNotes idle_notes_;
  bool inspects_ = false;        // the workers are being inspected for a note
  std::optional<int> stack_of_;  // the rank whose stack was requested for a note, and has not come
  PmiBarrier pmi_barrier_;
  RanksReports ranks_reports_;
  Stragglers stragglers_;              // of the current round
  std::optional<MemberId> preempted_;  // in this round; the other nodes have notice of it
  TimePoint collect_until_;
  std::string no_restart_;            // why none follows
  std::optional<Outcome> resigning_;  // this agent must leave: it resigns once all have stopped

  std::optional<Outcome> outcome_;  // of the job, since it is ending
  TimePoint end_deadline_;
  AbsentNodes absent_;
  std::optional<TimePoint> answers_until_;  // the job has ended, but absent nodes are still answered
};

}  // namespace dlaunch::agent
