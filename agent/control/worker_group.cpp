#include "agent/control/worker_group.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/model/call_mismatch.h"
#include "agent/model/remedy.h"
#include "agent/model/root_cause.h"
#include "store/base/overloaded.h"

namespace dlaunch::agent {

GroupActions WorkerGroup::step(TimePoint now, const GroupEvent& event) {
  GroupActions out;
  std::visit(
      Overloaded{
          [&](const StartWorkers& e) { on_start(e, out); }, [&](const WorkerStarted& e) { on_started(e); },
          [&](const WorkerSpawnFailed& e) { on_spawn_failed(now, e, out); },
          [&](const WorkerExited& e) { on_exited(now, e, out); },
          [&](const WorkerAborted& e) { on_aborted(now, e, out); },
          [&](const LeftoversRemain& e) { on_leftovers(now, e, out); },
          [&](const AllGone&) { on_all_gone(out); }, [&](const WorkersLost& e) { on_lost(now, e, out); },
          [&](const StopWorkers& e) { on_stop(now, e, out); }, [&](const KillNow&) { on_kill(now, out); },
          [&](const StopDeadline&) { on_deadline(now, out); }},
      event);
  return out;
}

void WorkerGroup::on_start(const StartWorkers& e, GroupActions& out) {
  if (state_ != State::idle) return;  // the Member starts a round only after the last has ended
  world_ = e.world;
  state_ = State::running;
  all_succeeded_ = true;
  stop_requested_ = false;
  failed_first_.reset();
  awaited_.reset();
  leftover_.clear();
  leftovers_ = 0;
  workers_.assign(static_cast<std::size_t>(node_.slots), Worker{});
  for (int i = 0; i < node_.slots; ++i) out.emplace_back(SpawnWorker{i});
}

void WorkerGroup::on_started(const WorkerStarted& e) {
  Worker& worker = workers_.at(static_cast<std::size_t>(e.local_rank));
  worker = {Worker::State::alive, e.pid, ""};
}

void WorkerGroup::on_spawn_failed(TimePoint now, const WorkerSpawnFailed& e, GroupActions& out) {
  workers_.at(static_cast<std::size_t>(e.local_rank)).state = Worker::State::ended;
  all_succeeded_ = false;
  if (state_ != State::running) return;
  Failure failure = failure_of(e.local_rank, FailureKind::spawn);
  failure.why = e.why;
  report(failure, now, out);
  stop_because(now, failure, out);
}

void WorkerGroup::on_leftovers(TimePoint now, const LeftoversRemain& e, GroupActions& out) {
  // Between two starts the keeper may see no worker. It reports leftovers again after each start.
  if (!all_ended()) return;
  leftover_ = e.example;
  // A descendant in a session of its own is out of reach of its worker's process group while that worker
  // lives.
  const bool others =
      std::exchange(leftovers_, e.count) != e.count;  // the same processes have the signal already
  if (state_ == State::stopping && others) out.emplace_back(SignalAll{SIGTERM});
  if (state_ != State::running) return;
  state_ = State::leftovers;
  awaited_.reset();
  const bool kills = grace_.sent_for(SIGTERM) == SIGKILL;
  out.emplace_back(LogMessage{Severity::info, "the workers have ended but left " + std::to_string(e.count) +
                                                  (e.count == 1 ? " process" : " processes") +
                                                  " behind, such as " + e.example +
                                                  (kills ? ": killing them" : ": stopping them")});
  stop_what_runs(now, SIGTERM, out);
}

void WorkerGroup::on_all_gone(GroupActions& out) {
  // Between two starts the keeper may see no process at all; the round has ended only when every worker
  // has.
  if (state_ == State::idle || !all_ended()) return;
  end_round(out);
}

void WorkerGroup::on_stop(TimePoint now, const StopWorkers& e, GroupActions& out) {
  if (state_ == State::idle) {
    out.emplace_back(RoundStopped{world_.round});
  } else if (state_ == State::running || state_ == State::leftovers) {
    begin_stopping(now, e.signo, out);
  }
}

void WorkerGroup::on_deadline(TimePoint now, GroupActions& out) {
  switch (state_) {
    case State::stopping:
    case State::leftovers:
      out.emplace_back(LogMessage{
          Severity::warning, processes_ignoring_signal() + " ignored " + signal_name(stop_signal_) + " for " +
                                 to_words(grace_.of(stop_signal_)) + " (--stop-timeout): sending SIGKILL"});
      begin_killing(now, out);
      break;
    case State::killing: {
      state_ = State::stuck;
      Failure failure;
      failure.kind = FailureKind::unkillable;
      failure.round = world_.round;
      const WorldMember* self = world_.member(node_.agent);
      failure.node_rank = self ? self->node_rank : node_.node_rank;
      failure.host = node_.host;
      failure.why = "survived SIGKILL for " + to_words(unkillable_after);
      failure.remedy = remedy_of_unkillable(failure.host);
      out.emplace_back(RoundStuck{std::move(failure)});
      break;
    }
    case State::running:
      if (awaited_) stop_because(now, blaming_failure_, out);
      break;
    case State::idle:
    case State::stuck:
      break;
  }
}

void WorkerGroup::on_kill(TimePoint now, GroupActions& out) {
  if (state_ == State::running) {
    stop_requested_ = true;
    stopping_since_ = now;
    stop_signal_ = SIGKILL;
  }
  if (state_ == State::running || state_ == State::leftovers || state_ == State::stopping)
    begin_killing(now, out);
}

void WorkerGroup::on_exited(TimePoint now, const WorkerExited& e, GroupActions& out) {
  const WorkerExit& exit = e.exit;
  const bool obeyed = stop_requested_ && ended_by_us(exit.status);
  workers_.at(static_cast<std::size_t>(e.local_rank)) = {
      Worker::State::ended, e.pid, obeyed ? "was stopped by dlaunch" : describe_briefly(exit.status)};
  if (exit.status.success()) {
    if (state_ != State::running || !awaited_ || may_still_run(*awaited_)) return;
    suspect(e, now, out);
    return stop_because(now, blaming_failure_, out);
  }
  all_succeeded_ = false;

  // An exception that came before our signal is a failure of its own, however the process ended then.
  const TimePoint when = now - std::max(exit.since_exception.value_or(Duration(0)), Duration(0));
  const bool on_its_own = !stop_requested_ || when <= stopping_since_;
  if (obeyed && !(on_its_own && exit.since_exception)) return suspect(e, now, out);

  Failure failure = failure_of(e.local_rank, FailureKind::worker);
  failure.pid = e.pid;
  failure.status = exit.status;
  failure.tail = exit.tail;
  failure.tail_is_of_stdout = exit.tail_is_of_stdout;
  failure.exception = exit.exception;
  failure.traceback = exit.traceback;
  failure.hint = exit.hint;
  failure.remedy = exit.remedy;
  failure.log_file = exit.log_file;
  failure.unix_ms = exit.unix_ms;
  failure.while_stopping = !on_its_own;
  failure.ended_by_us = obeyed;
  failure.blamed_rank = exit.exit_record.blamed_rank;
  failure.blamed_for = exit.exit_record.blamed_for;
  failure.blames_peer = output_blames_peer(failure);
  report(failure, when, out);
  if (state_ == State::running) stop_after(now, failure, out);
}

// As if it had exited with that code: its own end comes only after our signal.
void WorkerGroup::on_aborted(TimePoint now, const WorkerAborted& e, GroupActions& out) {
  if (state_ != State::running) return;
  constexpr int most = 255;
  const int code = e.code & most;
  Failure failure = failure_of(e.local_rank, FailureKind::worker);
  failure.pid = workers_.at(static_cast<std::size_t>(e.local_rank)).pid;
  failure.status = {ExitStatus::How::exited, code == 0 ? 1 : code, false};
  failure.exception = "it called MPI_Abort with code " + std::to_string(e.code);
  // Programs choose codes that a process can exit with. MPI's own handler of errors passes MPI's code, which
  // is larger: most often it is the end of another rank that it has noticed.
  failure.blames_peer = e.code > most;
  all_succeeded_ = false;
  report(failure, now, out);
  stop_after(now, failure, out);
}

void WorkerGroup::on_lost(TimePoint now, const WorkersLost& lost, GroupActions& out) {
  const bool ends_workers = !all_ended();
  Failure failure = failure_of(-1, FailureKind::agent);
  failure.rank = -1;
  const std::string node = failure.node_rank < 0 ? "" : "node " + std::to_string(failure.node_rank) + ", ";
  failure.why = lost.keeper + " (" + node + "host " + failure.host + ") was killed" +
                (ends_workers ? ", and with it the workers there" : "");
  failure.remedy = remedy_of_killed_helper(failure.host);
  out.emplace_back(LogMessage{Severity::warning, failure.why + "; another takes its place"});
  if (state_ == State::idle) return;
  for (Worker& worker : workers_) worker.state = Worker::State::ended;
  all_succeeded_ = all_succeeded_ && !ends_workers;
  if (state_ == State::running && ends_workers) report(std::move(failure), now, out);
  end_round(out);
}

// The first failure, or another while the end of the blamed rank is awaited.
void WorkerGroup::stop_after(TimePoint now, const Failure& failure, GroupActions& out) {
  const int awaited = awaited_.value_or(awaited_after(failure));
  if (!failure.blames_peer || !may_still_run(awaited)) return stop_because(now, failure, out);
  if (awaited_) return;
  awaited_ = awaited;
  blaming_failure_ = brief(failure);
  out.emplace_back(ArmStopDeadline{now + blamed_rank_grace});
}

// It is logged at once, since the end may take as long as the stop timeout.
void WorkerGroup::stop_because(TimePoint now, const Failure& failure, GroupActions& out) {
  auto others = std::count_if(workers_.begin(), workers_.end(),
                              [](const Worker& w) { return w.state != Worker::State::ended; });
  if (may_still_run(failure.rank)) --others;  // one that has called MPI_Abort
  if (others > 0) {
    const bool is_all = world_.nodes <= 1;
    const std::string who = others == 1 ? "the other one" : "the other " + std::to_string(others);
    out.emplace_back(LogMessage{Severity::info,
                                in_short(failure) + "; " + describe(grace_, who + (is_all ? "" : " here"))});
  }
  begin_stopping(now, SIGTERM, out);
}

// "rank 0 (pid 123)", "ranks 0 (pid 123) and 3 (pid 126)"; else an example of what the workers left.
std::string WorkerGroup::processes_ignoring_signal() const {
  constexpr std::size_t shown = 8;
  const WorldMember* self = world_.member(node_.agent);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (workers_[i].state != Worker::State::alive) continue;
    names.push_back(std::to_string((self ? self->base_rank : 0) + static_cast<int>(i)) + " (pid " +
                    std::to_string(workers_[i].pid) + ")");
  }
  if (names.empty()) return leftover_.empty() ? "what the workers left" : "process " + leftover_;
  std::string text = names.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return names.size() > shown ? text + " and " + std::to_string(names.size() - shown) + " more" : text;
}

// On this node. If the rank is unknown, any running worker may be meant.
bool WorkerGroup::may_still_run(int blamed_rank) const {
  if (blamed_rank < 0) return !all_ended();
  const WorldMember* self = world_.member(node_.agent);
  const int local_rank = blamed_rank - (self ? self->base_rank : 0);
  if (local_rank < 0 || local_rank >= node_.slots) return false;
  return workers_.at(static_cast<std::size_t>(local_rank)).state != Worker::State::ended;
}

// The worker may have been about to fail when it made others fail, or returned 0 while they needed it.
void WorkerGroup::suspect(const WorkerExited& e, TimePoint now, GroupActions& out) const {
  const bool has_left = e.exit.exit_record.in_exception || e.exit.status.success();
  std::string error = has_left ? last_line_in(e.exit.tail) : own_error_in(e.exit.tail_at_signal);
  if (error.empty() && !has_left) return;
  Failure failure = failure_of(e.local_rank, FailureKind::worker);
  failure.pid = e.pid;
  failure.status = e.exit.status;
  failure.exception = std::move(error);
  failure.while_stopping = true;
  failure.ended_by_us = true;
  out.emplace_back(RoundFailed{std::move(failure), now});
}

void WorkerGroup::report(Failure failure, TimePoint when, GroupActions& out) {
  const bool first = !failed_first_ || when < *failed_first_;
  if (first) failed_first_ = when;
  // A failure that cannot be the cause is sent without its long texts: hundreds of workers may fail at once.
  const bool late = when - *failed_first_ > one_moment && failure.status.how == ExitStatus::How::exited;
  const bool is_blamed = awaited_ == failure.rank;  // by the first: it may need long to end
  const bool may_be_cause = first || (!failure.blames_peer && (!late || is_blamed));
  if (!may_be_cause) {
    std::string line = call_mismatch_line(failure.tail);  // all of them together show which rank differs
    failure = brief(std::move(failure));
    failure.tail = std::move(line);
  }
  out.emplace_back(RoundFailed{std::move(failure), when});
}

void WorkerGroup::begin_stopping(TimePoint now, int signo, GroupActions& out) {
  state_ = State::stopping;
  awaited_.reset();
  stop_requested_ = true;
  stopping_since_ = now;
  stop_what_runs(now, signo, out);
}

void WorkerGroup::stop_what_runs(TimePoint now, int signo, GroupActions& out) {
  stop_signal_ = grace_.sent_for(signo);
  out.emplace_back(SignalAll{stop_signal_});  // SIGKILL, too: the output until then is kept
  if (stop_signal_ == SIGKILL) {
    begin_killing(now, out);
  } else {
    out.emplace_back(ArmStopDeadline{now + grace_.of(signo)});
  }
}

void WorkerGroup::begin_killing(TimePoint now, GroupActions& out) {
  state_ = State::killing;
  out.emplace_back(KillAll{});
  out.emplace_back(ArmStopDeadline{now + unkillable_after});
}

void WorkerGroup::end_round(GroupActions& out) {
  // A daemon that had to be killed at the end does not make a failure of a job whose workers all returned 0.
  const bool clean = all_succeeded_ && !stop_requested_;
  if (state_ != State::running || awaited_) out.emplace_back(DisarmStopDeadline{});
  state_ = State::idle;
  if (clean) {
    out.emplace_back(RoundDone{world_.round});
  } else {
    out.emplace_back(RoundStopped{world_.round, all_succeeded_});
  }
}

bool WorkerGroup::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Worker& w) { return w.state == Worker::State::ended; });
}

// A handler of the signal may end the process by 128 + n, as shells do.
bool WorkerGroup::ended_by_us(const ExitStatus& status) const {
  const bool killed = state_ == State::killing || state_ == State::stuck;
  const int code = status.shell_code();
  return code == 128 + stop_signal_ || (killed && code == 128 + SIGKILL);
}

Failure WorkerGroup::failure_of(int local_rank, FailureKind kind) const {
  Failure failure;
  failure.kind = kind;
  failure.round = world_.round;
  const WorldMember* self = world_.member(node_.agent);
  failure.node_rank = self ? self->node_rank : node_.node_rank;
  failure.host = node_.host;
  failure.local_rank = local_rank;
  failure.rank = (self ? self->base_rank : 0) + local_rank;
  return failure;
}

}  // namespace dlaunch::agent
