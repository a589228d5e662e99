// Who is in the job, and which world is current: a pure state machine, one per job, in the agent that serves
// the endpoint. One decision is one message to each member.
//
//   gathering --all nodes are in--> running --a failure, restarts left--> restarting --all have stopped-->
//   running
//       |                            |    |                                  |
//       |                            |    |  a failure without restarts, or a node left or was lost
//       |                            |    v
//       |  deadline                  |  collecting
//       |                            |    |  all have stopped, or there was time enough for it
//       |                            v    v
//       +-------------------------> ending --all have stopped or are lost--> ended
//
// The first failure that is heard of stops everyone at once. The others of its round are collected while they
// stop, each with its age, so that the cause is the first that happened and not the first that was told
// (agent/root_cause.h).
//
// Messages carry their round; what speaks of another round than the current one is stale and ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/messages.h"
#include "agent/root_cause.h"
#include "agent/say.h"

namespace dlaunch::agent {

// Names a member's connection; 0 is the member in the coordinator's own process.
using MemberId = std::uint32_t;

// --- events ---

struct FromMember {
  MemberId member = 0;
  Message message;
};
struct MemberLost {
  MemberId member = 0;
  std::string why;
};
// Answers ArmCoordinatorTimer: the time asked for has come.
struct CoordinatorTimer {};

using CoordinatorEvent = std::variant<FromMember, MemberLost, CoordinatorTimer>;

// --- actions ---

struct ToMember {
  MemberId member = 0;
  Message message;
  bool operator==(const ToMember&) const = default;
};
// What was sent to it before still reaches it.
struct DropMember {
  MemberId member = 0;
  bool operator==(const DropMember&) const = default;
};
// A fresh, empty store for the round that is about to be announced; connections of the last round are cut.
struct OpenStore {
  std::uint32_t round = 0;
  bool operator==(const OpenStore&) const = default;
};
struct ArmCoordinatorTimer {
  TimePoint at;
  bool operator==(const ArmCoordinatorTimer&) const = default;
};
struct CoordinatorEnded {
  bool operator==(const CoordinatorEnded&) const = default;
};

using CoordinatorAction =
    std::variant<ToMember, DropMember, OpenStore, ArmCoordinatorTimer, CoordinatorEnded, Say>;
using CoordinatorActions = std::vector<CoordinatorAction>;

class Coordinator {
 public:
  enum class State { gathering, running, restarting, collecting, ending, ended };

  // How long after the members' own stop timeout the end is waited for.
  static constexpr Duration end_margin = std::chrono::seconds(30);
  // How long after the first failure the root cause is looked for, where not all stop before.
  static constexpr Duration collecting_time = std::chrono::seconds(1);
  // Waiting is told after this long, and then again.
  static constexpr Duration first_report = std::chrono::seconds(5);
  static constexpr Duration next_report = std::chrono::seconds(10);

  Coordinator(JobSpec job, TimePoint now);

  // What must happen before the first event.
  CoordinatorActions begin();
  CoordinatorActions step(TimePoint now, const CoordinatorEvent& event);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] std::uint32_t round() const { return world_.round; }
  [[nodiscard]] int restarts_used() const { return world_.restarts_used; }
  [[nodiscard]] std::string missing() const;  // while gathering: "nodes 1 and 3"

 private:
  struct Node {
    Join joined;
    bool done = false;     // in the current round
    bool stopped = false;  // in the current round
  };

  void on_join(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out);
  void on_failed(TimePoint now, const Failed& failed, CoordinatorActions& out);
  void on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out);
  void on_stopped(TimePoint now, MemberId member, const Stopped& stopped, CoordinatorActions& out);
  void on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out);
  void on_timer(TimePoint now, CoordinatorActions& out);

  void refuse(MemberId member, std::string why, CoordinatorActions& out) const;
  void announce_world(TimePoint now, CoordinatorActions& out);
  void restart(TimePoint now, CoordinatorActions& out);
  void record(TimePoint when, const Failure& failure);
  void stop_round(const Failure& because, CoordinatorActions& out);
  void collect(TimePoint now, CoordinatorActions& out);
  void end_the_job_by(TimePoint now, const Failure& cause, CoordinatorActions& out);
  void go_on_when_all_stopped(TimePoint now, CoordinatorActions& out);
  void end_failed(TimePoint now, CoordinatorActions& out);
  void end(TimePoint now, Outcome outcome, CoordinatorActions& out);
  void end_when_all_stopped(CoordinatorActions& out);
  [[nodiscard]] Failure lost_node(const Join& joined, std::string why) const;
  [[nodiscard]] std::string reason_to_refuse(const Join& join) const;
  [[nodiscard]] bool all_stopped() const;

  JobSpec job_;
  State state_ = State::gathering;
  TimePoint began_;
  TimePoint join_deadline_;
  TimePoint end_deadline_;
  std::map<MemberId, Node> nodes_;
  World world_;

  TimePoint job_began_;  // its first round
  TimePoint round_began_;
  TimePoint collect_until_;
  std::vector<Fallen> fallen_;           // of the current round, as they were told
  std::set<int> fallen_ranks_;           // the workers among them
  std::optional<std::size_t> decisive_;  // what ended the job, where that is not for root_cause() to find
  std::vector<Restart> restarts_;
};

}  // namespace dlaunch::agent
