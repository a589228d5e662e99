// One node's side of the conversation with the coordinator: a pure state machine.
//
//   connecting --link--> joined --NewWorld--> working --End--> leaving --workers gone--> ended
//
// It decides when this node's workers start and stop, and with what the agent ends.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/messages.h"
#include "agent/say.h"
#include "agent/worker_group.h"

namespace dlaunch::agent {

// --- events ---

struct LinkUp {};
struct LinkDown {
  std::string why;
};
struct FromCoordinator {
  Message message;
};
struct SignalCame {
  int signo = 0;
};
// Answers ArmMemberTimer.
struct MemberTimer {};
// The keeper process is gone, and with it the workers.
struct KeeperLost {
  std::string why;
};

using MemberEvent = std::variant<LinkUp, LinkDown, FromCoordinator, SignalCame, MemberTimer, KeeperLost,
                                 RoundFailed, RoundDone, RoundStopped, RoundStuck>;

// --- actions ---

struct Dial {
  bool operator==(const Dial&) const = default;
};
struct ToCoordinator {
  Message message;
  bool operator==(const ToCoordinator&) const = default;
};
struct ToGroup {
  GroupEvent event;
};
struct ForwardSignal {
  int signo = 0;
  bool operator==(const ForwardSignal&) const = default;
};
struct ArmMemberTimer {
  TimePoint at;
  bool operator==(const ArmMemberTimer&) const = default;
};
struct MemberEnded {
  Outcome outcome;
  bool operator==(const MemberEnded&) const = default;
};

using MemberAction =
    std::variant<Dial, ToCoordinator, ToGroup, ForwardSignal, ArmMemberTimer, MemberEnded, Say>;
using MemberActions = std::vector<MemberAction>;

class Member {
 public:
  enum class State { connecting, joined, working, leaving, ended };

  // Between two attempts to reach the coordinator.
  static constexpr Duration first_pause = std::chrono::milliseconds(20);
  static constexpr Duration longest_pause = std::chrono::milliseconds(500);
  static constexpr Duration first_report = std::chrono::seconds(5);
  static constexpr Duration next_report = std::chrono::seconds(10);
  // How long a departing node waits for the coordinator's last word.
  static constexpr Duration farewell = std::chrono::seconds(10);

  Member(JobSpec job, NodeSpec node, std::string build, TimePoint now);

  MemberActions begin();
  MemberActions step(TimePoint now, const MemberEvent& event);

  [[nodiscard]] State state() const { return state_; }
  // Why a round was stopped last; empty: none was.
  [[nodiscard]] const std::string& last_failure() const { return last_failure_; }
  // While connecting: what the last attempt met.
  [[nodiscard]] const std::string& last_refusal() const { return last_refusal_; }

 private:
  void on_link_down(TimePoint now, const std::string& why, MemberActions& out);
  void on_message(const Message& message, MemberActions& out);
  void on_signal(TimePoint now, int signo, MemberActions& out);
  void give_notice(TimePoint now, MemberActions& out);
  void on_timer(TimePoint now, MemberActions& out);
  void on_stuck(const Failure& failure, MemberActions& out);

  void stop_group(int signo, MemberActions& out);
  void lose(Failure cause, MemberActions& out);
  void end_if_over(MemberActions& out);
  [[nodiscard]] Failure failure_here(FailureKind kind, std::string why) const;

  JobSpec job_;
  NodeSpec node_;
  std::string build_;
  State state_ = State::connecting;
  TimePoint began_;
  TimePoint join_deadline_;
  TimePoint report_at_;
  Duration pause_ = first_pause;
  bool link_ = false;
  bool round_active_ = false;  // workers of `round_` are running or being stopped
  std::uint32_t round_ = 0;
  bool noticed_ = false;            // the workers know that SIGTERM will follow
  int stop_signal_ = 0;             // the signal that was sent to us and means: stop
  std::optional<Outcome> outcome_;  // decided, but workers are still to go
  std::string last_failure_;
  std::string last_refusal_;  // why the last attempt to connect failed
};

}  // namespace dlaunch::agent
