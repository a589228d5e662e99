// What a member does with its workers in a round, and between two rounds.
#include <csignal>
#include <utility>

#include "agent/control/member.h"
#include "agent/model/remedy.h"
#include "agent/model/root_cause.h"

namespace dlaunch::agent {

void Member::on_keeper_lost(const KeeperLost& keeper, MemberActions& out) {
  round_active_ = false;
  Failure failure = failure_here(FailureKind::agent, keeper.why);
  failure.remedy = remedy_of_killed_helper(failure.host);
  fail_with(std::move(failure), out);
}

void Member::on_round_failed(TimePoint now, const RoundFailed& failed, MemberActions& out) {
  const Duration age = now - failed.when;
  if (is_suspect(failed.failure)) {
    if (state_ == State::working && !notice_.is_pending() && !lease_.is_over())
      out.emplace_back(ToCoordinator{Failed{failed.failure, age}});
    return;
  }
  if (!failed.failure.while_stopping) {
    last_failure_ = describe(failed.failure);
    unnoticed_ = failed.failure.unnoticed;
  }
  look_at_the_end(out);
  if (notice_.is_pending() && stop_signal_ == 0) {
    on_signal(now, SIGTERM, out);  // the notice asked it to end: no failure, and no restart
  } else if (state_ == State::working && lease_.is_over()) {
    const std::string why = "its agent did not run for more than " + to_words(job_.node_timeout) +
                            " (it was stopped, or the machine was suspended)";
    Failure failure = failure_here(FailureKind::node_lost, why);
    failure.remedy = remedy_of_pause(failure.host, job_.node_timeout);
    out.emplace_back(ToCoordinator{Failed{std::move(failure), age}});
  } else if (state_ == State::working) {
    out.emplace_back(ToCoordinator{Failed{failed.failure, age}});
  }
}

void Member::on_round_done(const RoundDone& done, MemberActions& out) {
  all_returned_0_ = true;
  on_round_over(Done{done.round}, out);
}

void Member::on_round_stopped(TimePoint now, const RoundStopped& stopped, MemberActions& out) {
  if (stopped.round != round_) return;  // the answer to a late stop of the round before
  all_returned_0_ = stopped.all_returned_0;
  const bool goes_on = state_ != State::leaving && stop_signal_ == 0 && !node_.health_check.empty();
  round_active_ = !goes_on && round_active_;
  if (goes_on) {
    check_health(now, false, out);  // which sends Stopped once the node is healthy
  } else {
    on_round_over(Stopped{stopped.round}, out);
  }
}

void Member::on_round_over(const Message& said, MemberActions& out) {
  round_active_ = false;
  if (contact_.is_up() && (state_ == State::working || state_ == State::joined))
    out.emplace_back(ToCoordinator{said});
  end_if_over(out);
}

// --- the workers' MPI ---

void Member::on_pmi_enter(const PmiEnter& enter, MemberActions& out) const {
  if (state_ == State::working && round_active_ && enter.round == round_)
    out.emplace_back(ToCoordinator{enter});
}

// --- the progress of the workers ---

// A report that is lost is not repeated: the leader does not wait for it.
void Member::on_arrivals(const ArrivalsReport& report, MemberActions& out) const {
  if (state_ == State::working && round_active_ && report.round == round_)
    out.emplace_back(ToCoordinator{report});
}

void Member::look_at_the_end(MemberActions& out) {
  if (state_ != State::working || !round_active_ || !reports_.take_last_look()) return;
  out.emplace_back(LookAtWorkers{true});
}

// While nothing moves, each look is reported to the coordinator; when something moves again, one more is.
void Member::on_workers_seen(TimePoint now, const WorkersSeen& seen, MemberActions& out) {
  if (state_ != State::working) return;
  if (auto progress = reports_.take(now, round_, seen)) out.emplace_back(ToCoordinator{std::move(*progress)});
}

void Member::on_workers_inspected(const Inspected& report, MemberActions& out) const {
  if (state_ == State::working && report.round == round_) out.emplace_back(ToCoordinator{report});
}

// Without a leader the report waits for the next one: until the link is up, the coordinator expects other
// bytes.
void Member::on_times(const TimesReport& report, MemberActions& out) {
  times_ = report;
  if (contact_.leads()) out.emplace_back(ToCoordinator{report});
}

// --- this node's health ---

void Member::check_health(TimePoint now, bool first, MemberActions& out) {
  health_.begin(now + node_.health_timeout, first);
  if (lease_.exists()) out.emplace_back(RenewLease{TimePoint::max()});  // the check is no worker
  out.emplace_back(RunHealthCheck{});
}

void Member::on_health_checked(TimePoint now, const std::string& why_not, MemberActions& out) {
  if (!health_.end()) return;
  if (state_ == State::leaving) return end_if_over(out);
  if (why_not.empty() && health_.was_first()) {
    search_.begin(now);
    dial(now, 0, out);
  } else if (why_not.empty()) {
    on_round_over(Stopped{round_}, out);
  } else {
    const std::string why = health_.was_killed() ? "it took longer than " + to_words(node_.health_timeout) +
                                                       " (--health-check-timeout)"
                                                 : why_not;
    Failure failure = failure_here(FailureKind::health, why);
    failure.remedy = remedy_of_health_check(node_.health_check, failure.host);
    fail_with(std::move(failure), out);
  }
}

}  // namespace dlaunch::agent
