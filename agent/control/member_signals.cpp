// What a member does with the signals that this agent gets, and with workers that no signal ends.
#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/control/member.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

bool is_from_keyboard(int signo) { return signo == SIGINT || signo == SIGQUIT; }

}  // namespace

void Member::on_signal(TimePoint now, int signo, MemberActions& out) {
  const bool means_stop =
      std::find(node_.stop_signals.begin(), node_.stop_signals.end(), signo) != node_.stop_signals.end();
  if (!means_stop) {
    if (round_active_) out.emplace_back(ForwardSignal{signo});
    return;
  }
  if (stop_signal_ != 0) {
    // Supervisors repeat SIGTERM, and terminals SIGHUP; only a repeated signal from a keyboard is meant.
    const bool impatient = is_from_keyboard(signo) || is_from_keyboard(stop_signal_);
    if (round_active_ && impatient) {
      out.emplace_back(LogMessage{Severity::info, "second signal: killing the workers"});
      out.emplace_back(ToGroup{KillNow{}});
    } else if (outcome_) {
      end_if_over(out);
    }
    return;
  }
  const bool may_get_notice = node_.preempt_signal != 0 && state_ == State::working && round_active_;
  if (signo == SIGTERM && may_get_notice && !notice_.is_pending()) return give_notice(now, out);
  stop_signal_ = signo;
  Failure cause = failure_here(FailureKind::signal, "");
  cause.status = {ExitStatus::How::signaled, signo, false};
  if (contact_.is_up() && state_ != State::leaving) {
    out.emplace_back(ToCoordinator{Leave{cause}});
    // If the coordinator does not answer, this node ends by itself.
    last_word_by_ = now + job_.stop_timeout.of(signo) + leave_timeout;
  }
  if (round_active_) {
    log_how_workers_end(signo, out);
    stop_group(signo, out);
  }
  if (!contact_.is_up()) fail_with(cause, out);
}

void Member::log_how_workers_end(int signo, MemberActions& out) const {
  if (job_.stop_timeout.sent_for(signo) == SIGKILL) {
    out.emplace_back(LogMessage{Severity::info, "told to end by " + signal_name(signo) +
                                                    ": killing the workers at once (--stop-timeout)"});
    return;
  }
  out.emplace_back(LogMessage{Severity::info,
                              "passing " + signal_name(signo) + " on to the workers; they have " +
                                  to_words(job_.stop_timeout.of(signo)) + " to end (" +
                                  (is_from_keyboard(signo) ? "a second signal" : "Ctrl-C") + " kills them)"});
}

// A planned end (Slurm, Kubernetes): workers may save their state before the SIGTERM.
void Member::give_notice(TimePoint now, MemberActions& out) {
  notice_.begin(now, now + node_.preempt_notice);
  if (notice_.take_signal()) out.emplace_back(ForwardSignal{node_.preempt_signal});
  out.emplace_back(ToCoordinator{Preempt{round_}});
  out.emplace_back(LogMessage{
      Severity::info, "told to end: giving the workers notice by " + signal_name(node_.preempt_signal) +
                          "; " + signal_name(job_.stop_timeout.sent_for(SIGTERM)) + " follows in " +
                          to_words(node_.preempt_notice) + " (a second signal sends it at once)"});
}

// Another node will end. Only nodes with the option send the signal: it may kill workers that do not handle
// it.
void Member::on_preempt(const Preempt& preempt, MemberActions& out) {
  const bool run = state_ == State::working && round_active_ && stop_signal_ == 0;
  if (!run || preempt.round != round_ || node_.preempt_signal == 0 || !notice_.take_signal()) return;
  out.emplace_back(ForwardSignal{node_.preempt_signal});
  out.emplace_back(
      LogMessage{Severity::info, shortened(sanitize_for_terminal(preempt.node_name), longest_host + 64) +
                                     " was told to end: giving the workers notice by " +
                                     signal_name(node_.preempt_signal)});
}

void Member::end_by_signal(MemberActions& out) {
  Failure cause = failure_here(FailureKind::signal, "");
  cause.status = {ExitStatus::How::signaled, stop_signal_, false};
  fail_with(cause, out);
}

void Member::on_stuck(const Failure& failure, MemberActions& out) {
  out.emplace_back(LogMessage{Severity::warning, describe(failure)});
  round_active_ = false;
  if (contact_.is_up() && state_ != State::leaving) out.emplace_back(ToCoordinator{Leave{failure}});
  // Nothing waits for a process that cannot be killed: this node ends, and its exit code shows that.
  Outcome outcome;
  outcome.failed = true;
  // A requested stop does not explain this end.
  const bool failed_before = outcome_ && outcome_->failed && outcome_->cause.kind != FailureKind::signal;
  outcome.cause = failed_before ? outcome_->cause : failure;
  outcome.exit_code = exit_code_of(outcome.cause);
  outcome_ = std::move(outcome);
  state_ = State::leaving;
  end_if_over(out);
}

}  // namespace dlaunch::agent
