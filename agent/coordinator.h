// Who is in the job, and which world is current: a pure state machine, one per job, in the agent that serves
// the endpoint. One decision is one message to each member.
//
//   gathering --all nodes are in--> running --a failure--> stopping --all have stopped, restarts left-->
//   running
//       |                             |                      |  no restarts left
//       |  deadline                   |  all done, or a node left or was lost
//       |                             v                      v
//       +-------------------------> ending --all have stopped or are lost--> ended
//
// The first failure that is heard of stops the round. Which one was the cause is known when all have stopped
// and told theirs: the first in time, by how long ago each node says it was.
//
// Messages carry their round; what speaks of another round than the current one is stale and ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/messages.h"
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
  enum class State { gathering, running, stopping, ending, ended };

  // How long after the members' own stop timeout the end is waited for.
  static constexpr Duration end_margin = std::chrono::seconds(30);
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

  void on_join(MemberId member, const Join& join, CoordinatorActions& out);
  void on_failed(TimePoint now, const Failure& failure, CoordinatorActions& out);
  void on_done(TimePoint now, MemberId member, const Done& done, CoordinatorActions& out);
  void on_stopped(TimePoint now, MemberId member, const Stopped& stopped, CoordinatorActions& out);
  void on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out);
  void on_timer(TimePoint now, CoordinatorActions& out);

  void refuse(MemberId member, std::string why, CoordinatorActions& out) const;
  void announce_world(CoordinatorActions& out);
  void end(TimePoint now, const Outcome& outcome, CoordinatorActions& out);
  void fail(TimePoint now, Failure cause, CoordinatorActions& out);
  void remember(TimePoint now, const Failure& failure);
  void go_on_when_all_stopped(TimePoint now, CoordinatorActions& out);
  void end_when_all_stopped(CoordinatorActions& out);
  [[nodiscard]] std::string reason_to_refuse(const Join& join) const;
  [[nodiscard]] bool all_stopped() const;

  JobSpec job_;
  State state_ = State::gathering;
  TimePoint began_;
  TimePoint join_deadline_;
  TimePoint end_deadline_;
  std::map<MemberId, Node> nodes_;
  World world_;
  std::multimap<TimePoint, Failure> failures_;  // of the current round, by when they happened
  int more_failures_ = 0;                       // that are not among them
};

}  // namespace dlaunch::agent
