// How the coordinator ends the job.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "agent/control/coordinator.h"
#include "agent/control/member.h"
#include "agent/model/root_cause.h"
#include "store/base/text.h"

namespace dlaunch::agent {

void Coordinator::record(TimePoint when, const Failure& failure) {
  failures_.record(when, failure);
  if (failure.kind == FailureKind::worker)
    hang_detector_.note_end(failure.rank, describe_briefly(failure.status));
}

void Coordinator::collect(TimePoint now) {
  state_ = State::collecting;
  collect_until_ = now + collecting_time;
}

// A cause that no restart can heal ends the job, unless the job was ending already.
void Coordinator::end_the_job_by(TimePoint now, const Failure& cause, CoordinatorActions& out) {
  if (state_ == State::ending) return;
  const bool was_ending = state_ == State::collecting;
  if (was_ending && cause.kind == FailureKind::signal) return;
  record(now, cause);
  if (was_ending) return;
  failures_.end_job_by_last();
  if (state_ == State::gathering || state_ == State::standby) {
    end_failed(now, out);
    return;
  }
  // A user who stops a job that stands still wants to know why it did.
  const bool is_asked_why = cause.kind == FailureKind::signal && state_ == State::running;
  if (is_asked_why && stall() > Duration(0)) {
    note_stall(out);
    for (const int rank : hang_detector_.diagnosis().missing) report_stack(rank, out);
  } else if (const Duration idle = hang_detector_.idle(membership_);
             is_asked_why && job_.hang_note > Duration(0) && idle >= job_.hang_note) {
    note_idle(idle, out);
    report_records(out);
  }
  if (state_ == State::running) stop_world(now, describe(cause), out);
  collect(now);
}

void Coordinator::end_failed(TimePoint now, CoordinatorActions& out) {
  end(now, failures_.take_outcome(hang_detector_, world_), out);
}

void Coordinator::end(TimePoint now, Outcome outcome, CoordinatorActions& out) {
  state_ = State::ending;
  end_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  outcome.restarts_used = world_.restarts_used;
  outcome.restarts = world_.restarts;
  outcome.no_restart = no_restart_;
  for (const auto& [agent, times] : times_) outcome.times += times;
  Event ended{EventKind::ended, world_.round};
  ended.text = outcome.failed ? describe(outcome.cause) : "";
  out.emplace_back(std::move(ended));
  for (const auto& [member, node] : membership_.nodes()) {
    if (!node.leaves()) out.emplace_back(ToMember{member, End{outcome}});
  }
  outcome_ = std::move(outcome);
  end_when_all_stopped(now, out);
}

std::optional<JobEnding> Coordinator::ending() const {
  if (!outcome_) return std::nullopt;
  return JobEnding{leadership_.tokens().known(), *outcome_};
}

bool Coordinator::may_leave_workers(TimePoint now) const {
  const auto& nodes = membership_.nodes();
  const bool runs_here = std::any_of(nodes.begin(), nodes.end(), [](const auto& member) {
    return member.first != local_member && !member.second.stopped;
  });
  return leases_.exist() && formed_ && (runs_here || earlier_worlds_.may_run(now));
}

void Coordinator::end_when_all_stopped(TimePoint now, CoordinatorActions& out) {
  // A remote node disconnects after it has received End and stopped: until then End may be on its way.
  const bool remote_left = std::any_of(membership_.nodes().begin(), membership_.nodes().end(),
                                       [](const auto& n) { return n.first != local_member; });
  if (remote_left || !membership_.all_stopped() || answers_absent_nodes(now, out)) return;
  state_ = State::ended;
  out.emplace_back(CoordinatorEnded{});
}

// A node that fell silent and can reach the endpoints again asks each of them at least once in this time.
// With etcd it reads there how the job has ended (agent/control/job_ending.h).
bool Coordinator::answers_absent_nodes(TimePoint now, CoordinatorActions& out) {
  if (answers_until_) return now < *answers_until_;
  const std::vector<std::string> names = absent_.looking(now, job_.join_timeout);
  if (names.empty() || job_.elected || !(job_.elastic() || job_.may_move())) return false;
  const auto others = static_cast<int>(std::max<std::size_t>(job_.endpoints.size(), 1)) - 1;
  const Duration patience = job_.node_timeout + others * (Member::probe_timeout + Member::probe_pause);
  answers_until_ = now + patience;
  ShortList list;
  for (const std::string& name : names) list.add(name);
  out.emplace_back(LogMessage{Severity::info, "the job has ended; waiting up to " + to_words(patience) +
                                                  " to report that to " + list.text() +
                                                  ", which did not answer before (a signal ends the wait)"});
  return true;
}

void Coordinator::on_timer_at_the_end(TimePoint now, CoordinatorActions& out) {
  if (answers_until_) return end_when_all_stopped(now, out);
  if (now < end_deadline_) return;
  for (const auto& [member, node] : membership_.nodes()) {
    if (node.stopped) continue;
    out.emplace_back(LogMessage{Severity::warning,
                                name_of(node) + " did not report that it has stopped; going on without it"});
  }
  state_ = State::ended;
  out.emplace_back(CoordinatorEnded{});
}

}  // namespace dlaunch::agent
