#include "agent/member.h"

#include <algorithm>

namespace dlaunch::agent {
Member::Member(JobSpec job, NodeSpec node, std::string build, TimePoint now)
    : job_(std::move(job)),
      node_(std::move(node)),
      build_(std::move(build)),
      began_(now),
      join_deadline_(now + job_.join_timeout),
      report_at_(now + first_report) {}

MemberActions Member::begin() { return {Dial{}}; }

MemberActions Member::step(TimePoint now, const MemberEvent& event) {
  MemberActions out;
  if (state_ == State::ended) return out;
  if (std::holds_alternative<LinkUp>(event)) {
    if (state_ != State::connecting) return out;
    link_ = true;
    state_ = State::joined;
    // The coordinator ends the wait for the other nodes; this deadline is for a coordinator that is silent.
    out.emplace_back(ArmMemberTimer{join_deadline_ + farewell});
    out.emplace_back(ToCoordinator{
        Join{job_.id, job_.nnodes, job_.max_restarts, node_.node_rank, node_.slots, node_.host, build_}});
  } else if (const auto* down = std::get_if<LinkDown>(&event)) {
    on_link_down(now, down->why, out);
  } else if (const auto* from = std::get_if<FromCoordinator>(&event)) {
    on_message(from->message, out);
  } else if (const auto* signal = std::get_if<SignalCame>(&event)) {
    on_signal(now, signal->signo, out);
  } else if (std::holds_alternative<MemberTimer>(event)) {
    on_timer(now, out);
  } else if (const auto* keeper = std::get_if<KeeperLost>(&event)) {
    round_active_ = false;
    lose(failure_here(FailureKind::agent, keeper->why), out);
  } else if (const auto* failed = std::get_if<RoundFailed>(&event)) {
    if (!failed->failure.while_stopping) last_failure_ = describe(failed->failure);
    if (noticed_ && stop_signal_ == 0) {
      on_signal(now, SIGTERM, out);  // to end was what it was asked for: no failure, and no restart
    } else if (state_ == State::working) {
      out.emplace_back(ToCoordinator{Failed{failed->failure, now - failed->when}});
    }
  } else if (const auto* done = std::get_if<RoundDone>(&event)) {
    round_active_ = false;
    if (state_ == State::working) out.emplace_back(ToCoordinator{Done{done->round}});
    end_if_over(out);
  } else if (const auto* stopped = std::get_if<RoundStopped>(&event)) {
    round_active_ = false;
    if (state_ == State::working) out.emplace_back(ToCoordinator{Stopped{stopped->round}});
    end_if_over(out);
  } else if (const auto* stuck = std::get_if<RoundStuck>(&event)) {
    on_stuck(stuck->failure, out);
  }
  return out;
}

void Member::on_link_down(TimePoint now, const std::string& why, MemberActions& out) {
  link_ = false;
  if (state_ == State::connecting) {
    last_refusal_ = why;
    if (now >= join_deadline_) {
      lose(failure_here(FailureKind::join, "waited " + to_words(job_.join_timeout) + " for node 0 at " +
                                               to_string(job_.master) + ", which never answered: " + why),
           out);
      return;
    }
    if (now >= report_at_) {
      report_at_ = now + next_report;
      out.emplace_back(Say{Loudness::progress, "waiting for node 0 at " + to_string(job_.master) + " since " +
                                                   to_words(now - began_) + ", until " +
                                                   to_words(join_deadline_ - now) + " from now: " + why});
    }
    out.emplace_back(ArmMemberTimer{std::min(now + pause_, join_deadline_)});
    pause_ = std::min(pause_ * 2, longest_pause);
    return;
  }
  if (state_ == State::leaving) {
    end_if_over(out);
    return;
  }
  if (state_ == State::joined) {
    lose(failure_here(FailureKind::join,
                      "what listens at " + to_string(job_.master) + " hung up before the job began: " + why +
                          "; check that --master-addr and --master-port are those of node 0"),
         out);
    return;
  }
  lose(failure_here(FailureKind::node_lost, why), out);
}

void Member::on_message(const Message& message, MemberActions& out) {
  if (const auto* refused = std::get_if<Refused>(&message)) {
    lose(failure_here(FailureKind::join,
                      "node 0 at " + to_string(job_.master) + " refused this node: " + refused->why),
         out);
  } else if (const auto* world = std::get_if<NewWorld>(&message)) {
    const bool newer = state_ == State::joined || (state_ == State::working && world->world.round > round_);
    if (!newer || round_active_ || !world->world.member(node_.node_rank)) return;
    state_ = State::working;
    round_ = world->world.round;
    round_active_ = true;
    out.emplace_back(ToGroup{StartWorkers{world->world}});
  } else if (const auto* stop = std::get_if<StopRound>(&message)) {
    if (state_ != State::working || stop->round != round_) return;
    last_failure_ = stop->why;
    stop_group(SIGTERM, out);
  } else if (const auto* end = std::get_if<End>(&message)) {
    outcome_ = end->outcome;
    state_ = State::leaving;
    if (round_active_) {
      stop_group(SIGTERM, out);
    } else {
      end_if_over(out);
    }
  } else {
    out.emplace_back(
        Say{Loudness::trouble, "the coordinator sent a message that only members send; ignored"});
  }
}

void Member::on_signal(TimePoint now, int signo, MemberActions& out) {
  const bool means_stop =
      std::find(node_.stop_signals.begin(), node_.stop_signals.end(), signo) != node_.stop_signals.end();
  if (!means_stop) {
    if (round_active_) out.emplace_back(ForwardSignal{signo});
    return;
  }
  if (stop_signal_ != 0) {
    if (round_active_) {
      out.emplace_back(Say{Loudness::progress, "second signal: killing the workers"});
      out.emplace_back(ToGroup{KillNow{}});
    } else if (outcome_) {
      end_if_over(out);
    }
    return;
  }
  const bool may_get_notice = node_.preempt_signal != 0 && state_ == State::working && round_active_;
  if (signo == SIGTERM && may_get_notice && !noticed_) return give_notice(now, out);
  stop_signal_ = signo;
  Failure cause = failure_here(FailureKind::signal, "");
  cause.status = {ExitStatus::How::signaled, signo, false};
  if (link_ && state_ != State::leaving) {
    out.emplace_back(ToCoordinator{Leave{cause}});
    // Should the coordinator have no last word for us, this node ends on its own.
    out.emplace_back(ArmMemberTimer{now + job_.stop_timeout + farewell});
  }
  if (round_active_) {
    out.emplace_back(
        Say{Loudness::progress, "passing " + signal_name(signo) + " on to the workers; they have " +
                                    to_words(job_.stop_timeout) + " to end (a second signal kills them)"});
    stop_group(signo, out);
  }
  if (!link_) lose(cause, out);
}

// A planned end (Slurm, Kubernetes): workers may save what they have before the SIGTERM.
void Member::give_notice(TimePoint now, MemberActions& out) {
  noticed_ = true;
  out.emplace_back(ForwardSignal{node_.preempt_signal});
  out.emplace_back(Say{Loudness::progress, "told to end: giving the workers notice by " +
                                               signal_name(node_.preempt_signal) + "; SIGTERM follows in " +
                                               to_words(node_.preempt_notice) +
                                               " (a second signal sends it at once)"});
  out.emplace_back(ArmMemberTimer{now + node_.preempt_notice});
}

void Member::on_timer(TimePoint now, MemberActions& out) {
  switch (state_) {
    case State::connecting:
      out.emplace_back(Dial{});
      break;
    case State::joined:
      if (now >= join_deadline_) {
        lose(failure_here(FailureKind::join, "waited " + to_words(now - began_) + " for node 0 at " +
                                                 to_string(job_.master) +
                                                 ", which took the connection but never started the job"),
             out);
      }
      break;
    case State::working:
      if (noticed_ && stop_signal_ == 0) {
        on_signal(now, SIGTERM, out);
      } else if (stop_signal_ != 0 && !round_active_) {
        Failure cause = failure_here(FailureKind::signal, "");
        cause.status = {ExitStatus::How::signaled, stop_signal_, false};
        lose(cause, out);
      }
      break;
    case State::leaving:
    case State::ended:
      break;
  }
}

void Member::on_stuck(const Failure& failure, MemberActions& out) {
  out.emplace_back(Say{Loudness::trouble, describe(failure)});
  round_active_ = false;
  if (link_ && state_ != State::leaving) out.emplace_back(ToCoordinator{Leave{failure}});
  // What cannot be killed cannot be waited for either: this node ends, and says so by its exit code.
  Outcome outcome;
  outcome.failed = true;
  outcome.exit_code = exit_code_of(failure);
  outcome.cause = outcome_ && outcome_->failed ? outcome_->cause : failure;
  outcome_ = std::move(outcome);
  state_ = State::leaving;
  end_if_over(out);
}

void Member::stop_group(int signo, MemberActions& out) { out.emplace_back(ToGroup{StopWorkers{signo}}); }

void Member::lose(Failure cause, MemberActions& out) {
  if (outcome_) {
    end_if_over(out);
    return;
  }
  Outcome outcome;
  outcome.failed = true;
  outcome.exit_code = exit_code_of(cause);
  outcome.cause = std::move(cause);
  outcome_ = std::move(outcome);
  if (link_) out.emplace_back(ToCoordinator{Leave{outcome_->cause}});
  state_ = State::leaving;
  if (round_active_) {
    stop_group(SIGTERM, out);
  } else {
    end_if_over(out);
  }
}

void Member::end_if_over(MemberActions& out) {
  if (state_ != State::leaving || round_active_ || !outcome_) return;
  state_ = State::ended;
  if (link_) out.emplace_back(ToCoordinator{Stopped{round_}});
  out.emplace_back(MemberEnded{*outcome_});
}

Failure Member::failure_here(FailureKind kind, std::string why) const {
  Failure failure;
  failure.kind = kind;
  failure.round = round_;
  failure.node_rank = kind == FailureKind::node_lost ? 0 : node_.node_rank;
  failure.host = kind == FailureKind::node_lost ? job_.master.host : node_.host;
  failure.why = std::move(why);
  return failure;
}

}  // namespace dlaunch::agent
