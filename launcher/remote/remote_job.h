// A job on several hosts as the dlaunch that started it sees it: a pure state machine.
//
//   running --a host cannot be started, a signal came, node 0 is lost or has ended--> ending --all gone-->
//   ended
//
// It starts a dlaunch on every host: itself, or through another host (RemoteHost::starter). If that one
// cannot connect to it, this machine tries. Once they are up, they decide among themselves about the job
// (agent/control/coordinator.h); node 0's exit code and report are the job's. RemoteJob decides only what
// they cannot: what to do about a host that does not start, and when a stop takes too long.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/model/exit_status.h"
#include "agent/model/job.h"
#include "agent/model/log_message.h"
#include "launcher/remote/remote_plan.h"
#include "launcher/remote/ssh_diagnosis.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// --- events; `node` is a node rank ---

// The node's dlaunch is up.
struct HostReady {
  int node = 0;
};
// A message of the node's dlaunch before its end.
struct HostMessage {
  int node = 0;
  AgentMessage message;
};
// The process for this node, here or on its starter's host, has ended, and all its output has been read.
struct HostGone {
  int node = 0;
  agent::ExitStatus status;
  std::string stderr_tail;  // the last lines of its stderr
};
struct HostNotRun {
  int node = 0;
  std::string why;  // the process could not be started
};
struct UserSignal {
  int signo = 0;
  bool stops = true;  // false: it is only forwarded
};
// Answers ArmRemoteTimer.
struct RemoteTimer {};

using RemoteEvent = std::variant<HostReady, HostMessage, HostGone, HostNotRun, UserSignal, RemoteTimer>;

// --- actions ---

// Starts the node's dlaunch from its starter, or from this machine in any case.
struct RunHost {
  int node = 0;
  bool directly = false;
  bool operator==(const RunHost&) const = default;
};
struct PassSignal {
  int node = 0;
  int signo = 0;
  bool operator==(const PassSignal&) const = default;
};
// Closes the standard input of the node's dlaunch, which then stops by itself.
struct Disconnect {
  int node = 0;
  bool operator==(const Disconnect&) const = default;
};
// Signals the process for this node on this machine.
struct SignalHost {
  int node = 0;
  int signo = 0;
  bool operator==(const SignalHost&) const = default;
};
struct ArmRemoteTimer {
  TimePoint at;
  bool operator==(const ArmRemoteTimer&) const = default;
};
struct RemoteEnded {
  bool operator==(const RemoteEnded&) const = default;
};

using RemoteAction =
    std::variant<RunHost, PassSignal, Disconnect, SignalHost, ArmRemoteTimer, RemoteEnded, agent::LogMessage>;
using RemoteActions = std::vector<RemoteAction>;

// The result when everything has ended.
struct RemoteOutcome {
  int exit_code = 0;
  // Set if only this dlaunch knows the cause; then there is no report of the hosts.
  std::optional<agent::Failure> cause;
  std::vector<std::string> report;  // paragraphs: first those that only other nodes have, then node 0's
  std::string json;                 // node 0's
};

class RemoteJob {
 public:
  // How many hosts may be starting at a time from one machine.
  static constexpr int fan_out = 64;
  // Longer than the agents themselves need to end.
  static constexpr Duration end_margin = std::chrono::seconds(10);
  // After node 0's end, for a host from which nothing has come: it may have taken part in the job, and its
  // output may still be on the way.
  static constexpr Duration late_margin = std::chrono::seconds(5);
  // Between disconnecting and SIGKILL, and between SIGKILL and giving up.
  static constexpr Duration last_pause = std::chrono::seconds(5);

  // REQUIRES: the plan outlives this. `notice`: how much longer than the plan's stop timeout a stop may take.
  RemoteJob(const RemotePlan& plan, Duration notice);

  RemoteActions begin(TimePoint now);
  RemoteActions step(TimePoint now, const RemoteEvent& event);

  [[nodiscard]] bool ended() const { return ended_; }
  // Node 0 has reported how the job ended, or is gone: the workers have ended.
  [[nodiscard]] bool is_over() const;
  // REQUIRES: ended()
  [[nodiscard]] RemoteOutcome outcome() const;

 private:
  struct Host {
    enum class State { waiting, starting, up, gone };
    State state = State::waiting;
    std::optional<TimePoint> start_deadline;  // none: it has passed, or the host was not started yet
    bool directly = false;                    // its starter could not connect to it
    bool abandoned = false;                   // dlaunch gave up while it was starting
    std::optional<int> exit_code;             // reported by its dlaunch before its end
    std::vector<std::string> report;
    std::string json;
  };
  // The steps that force the end, in this order. Nodes that have not been stopped get the signal first.
  enum class Hurry { none, waiting, disconnected, killed };

  void on_ready(int node, RemoteActions& out);
  void on_message(int node, const AgentMessage& message);
  void on_not_run(TimePoint now, const HostNotRun& event, RemoteActions& out);
  void on_gone(TimePoint now, const HostGone& gone, RemoteActions& out);
  void on_signal(TimePoint now, const UserSignal& signal, RemoteActions& out);
  void on_timer(TimePoint now, RemoteActions& out);

  void start_more(TimePoint now, RemoteActions& out);
  bool start_directly(const HostGone& gone, RemoteActions& out);
  void fail(TimePoint now, agent::Failure failure, int exit_code, RemoteActions& out);
  void give_up_starting(RemoteActions& out);
  void blame(agent::Failure failure);
  void abandon(const std::vector<int>& starting, RemoteActions& out);
  void stop_all(TimePoint now, int signo, RemoteActions& out);
  void begin_end(TimePoint now);
  void hurry(TimePoint now, RemoteActions& out);
  void end_when_all_gone(RemoteActions& out);
  void arm(RemoteActions& out) const;

  [[nodiscard]] bool node_0_waited_in_vain() const;
  [[nodiscard]] int count(Host::State state) const;
  [[nodiscard]] int starter_of(int node) const;
  [[nodiscard]] Host& host(int node) { return hosts_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] const std::string& name(int node) const;
  [[nodiscard]] Duration patience() const;
  [[nodiscard]] agent::Failure failure_at(int node, agent::FailureKind kind, std::string why) const;
  [[nodiscard]] agent::Failure not_started(int node, const std::string& why) const;
  [[nodiscard]] StartFailure start_failure(const HostGone& gone) const;
  [[nodiscard]] agent::Failure did_not_answer(int node) const;
  [[nodiscard]] agent::Failure lost(const HostGone& gone) const;
  [[nodiscard]] std::vector<std::string> reports() const;
  [[nodiscard]] std::vector<int> in(std::initializer_list<Host::State> states) const;

  const RemotePlan& plan_;
  const Duration notice_;
  std::vector<Host> hosts_;
  std::set<int> waiting_;  // the hosts that are not started yet
  bool some_directly_ = false;
  std::optional<agent::Failure> cause_;
  std::optional<agent::Failure> suspect_;  // the cause, if node 0 does not learn of it
  int cause_code_ = 0;
  int signo_ = 0;  // the user stopped the job with it
  int stop_signal_ = 0;
  Hurry hurry_ = Hurry::none;
  std::optional<TimePoint> hurry_at_;
  std::optional<TimePoint> give_up_late_at_;  // the hosts that are still starting
  bool ended_ = false;
};

}  // namespace dlaunch::launcher
