// The life of this node's workers in one round after another: a pure state machine.
//
//   idle --start--> running --all returned 0, nothing left--> done   (-> idle)
//                      |  one failed, or stop (*)
//                      v
//                   stopping --TERM, wait; KILL after the grace time, or at once--> stopped (-> idle)
//
// (*) If the first failed worker blames another worker, and that one may still run, the blamed worker has
// blamed_rank_grace (agent/model/root_cause.h) to end by itself: SIGTERM at once could end it before it
// prints the reason (a C++ program whose exception destroys the process group before main prints it).
//
// It does no I/O, owns no thread and reads no clock. Every event is answered in one place, step(). A worker
// has ended when it was reaped; the round has ended when also no descendant of a worker is left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/model/job.h"
#include "agent/model/log_message.h"
#include "agent/model/worker_exit.h"

namespace dlaunch::agent {

// --- events ---

struct StartWorkers {
  World world;
};
struct WorkerStarted {
  int local_rank = 0;
  std::int64_t pid = 0;
};
struct WorkerSpawnFailed {
  int local_rank = 0;
  std::string why;
};
struct WorkerExited {
  int local_rank = 0;
  std::int64_t pid = 0;
  WorkerExit exit;
};
// The worker ends the job (MPI_Abort) with this code. It may wait to be ended.
struct WorkerAborted {
  int local_rank = 0;
  int code = 0;
};
// All workers have ended, but `count` of their children have not.
struct LeftoversRemain {
  int count = 0;
  std::string example;  // "4711 (python3)"
};
// Neither a worker nor any descendant of one is alive.
struct AllGone {};
// All workers and their descendants have ended, because their keeper was killed.
struct WorkersLost {
  std::string keeper;  // "the keeper process 5"
};
struct StopWorkers {
  int signo = 0;
};
// Kill without waiting for the grace time.
struct KillNow {};
struct StopDeadline {};

using GroupEvent = std::variant<StartWorkers, WorkerStarted, WorkerSpawnFailed, WorkerExited, WorkerAborted,
                                LeftoversRemain, AllGone, WorkersLost, StopWorkers, KillNow, StopDeadline>;

// --- actions ---

struct SpawnWorker {
  int local_rank = 0;
  bool operator==(const SpawnWorker&) const = default;
};
// To each worker's process group, and to what ended workers have left.
struct SignalAll {
  int signo = 0;
  bool operator==(const SignalAll&) const = default;
};
// SIGKILL to every descendant, until none is left.
struct KillAll {
  bool operator==(const KillAll&) const = default;
};
struct ArmStopDeadline {
  TimePoint at;
  bool operator==(const ArmStopDeadline&) const = default;
};
struct DisarmStopDeadline {
  bool operator==(const DisarmStopDeadline&) const = default;
};
// For the Member: a failure of this node's round. With the first, stopping has begun; more may follow until
// the round has stopped. A worker that only obeyed the stop has not failed, but may be reported as a suspect
// (is_suspect()).
struct RoundFailed {
  Failure failure;
  TimePoint when;
  bool operator==(const RoundFailed&) const = default;
};
struct RoundDone {
  std::uint32_t round = 0;
  bool operator==(const RoundDone&) const = default;
};
struct RoundStopped {
  std::uint32_t round = 0;
  bool all_returned_0 = false;
  bool operator==(const RoundStopped&) const = default;
};
// A process survived SIGKILL for longer than `unkillable_after`. The receiver puts its name in front of why.
struct RoundStuck {
  Failure failure;
  bool operator==(const RoundStuck&) const = default;
};

using GroupAction = std::variant<SpawnWorker, SignalAll, KillAll, ArmStopDeadline, DisarmStopDeadline,
                                 RoundFailed, RoundDone, RoundStopped, RoundStuck, LogMessage>;
using GroupActions = std::vector<GroupAction>;

class WorkerGroup {
 public:
  enum class State { idle, running, leftovers, stopping, killing, stuck };
  struct Worker {
    enum class State { starting, alive, ended };
    State state = State::starting;
    std::int64_t pid = 0;
    std::string how_ended{};  // "returned 0", "was stopped by dlaunch"; empty: it has not ended
  };

  static constexpr Duration unkillable_after = std::chrono::seconds(20);

  WorkerGroup(NodeSpec node, StopGrace grace) : node_(std::move(node)), grace_(std::move(grace)) {}

  GroupActions step(TimePoint now, const GroupEvent& event);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] bool active() const { return state_ != State::idle; }
  [[nodiscard]] std::uint32_t round() const { return world_.round; }
  [[nodiscard]] const std::vector<Worker>& workers() const { return workers_; }

 private:
  void on_start(const StartWorkers& start, GroupActions& out);
  void on_started(const WorkerStarted& started);
  void on_spawn_failed(TimePoint now, const WorkerSpawnFailed& failed, GroupActions& out);
  void on_exited(TimePoint now, const WorkerExited& exited, GroupActions& out);
  void on_aborted(TimePoint now, const WorkerAborted& aborted, GroupActions& out);
  void on_leftovers(TimePoint now, const LeftoversRemain& left, GroupActions& out);
  void on_all_gone(GroupActions& out);
  void on_stop(TimePoint now, const StopWorkers& stop, GroupActions& out);
  void on_deadline(TimePoint now, GroupActions& out);
  void on_kill(TimePoint now, GroupActions& out);
  void on_lost(TimePoint now, const WorkersLost& lost, GroupActions& out);
  void suspect(const WorkerExited& exited, TimePoint now, GroupActions& out) const;
  void report(Failure failure, TimePoint when, GroupActions& out);
  void stop_after(TimePoint now, const Failure& failure, GroupActions& out);
  void stop_because(TimePoint now, const Failure& failure, GroupActions& out);
  [[nodiscard]] std::string processes_ignoring_signal() const;
  [[nodiscard]] bool may_still_run(int blamed_rank) const;
  void begin_stopping(TimePoint now, int signo, GroupActions& out);
  void stop_what_runs(TimePoint now, int signo, GroupActions& out);
  void begin_killing(TimePoint now, GroupActions& out);
  void end_round(GroupActions& out);
  [[nodiscard]] bool all_ended() const;
  [[nodiscard]] bool ended_by_us(const ExitStatus& status) const;
  [[nodiscard]] Failure failure_of(int local_rank, FailureKind kind) const;

  NodeSpec node_;
  StopGrace grace_;
  State state_ = State::idle;
  World world_;
  std::vector<Worker> workers_;
  bool all_succeeded_ = false;   // so far in this round
  bool stop_requested_ = false;  // in this round
  int stop_signal_ = 0;          // the signal that was sent
  TimePoint stopping_since_;     // if stop_requested_
  std::optional<TimePoint> failed_first_;
  std::optional<int> awaited_;  // its end is awaited before the others are stopped; -1: any rank's
  Failure blaming_failure_;     // the failure that blames it, in brief
  std::string leftover_;        // an example of a process that remains
  int leftovers_ = 0;           // how many remained at the last report
};

}  // namespace dlaunch::agent
