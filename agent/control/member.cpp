#include "agent/control/member.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/control/one_of.h"
#include "agent/model/remedy.h"
#include "store/base/overloaded.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
Member::Member(JobSpec job, NodeSpec node, std::string build, TimePoint now)
    : job_(std::move(job)),
      node_(std::move(node)),
      build_(std::move(build)),
      waiting_(now, job_.join_timeout),
      contact_(job_.node_timeout, job_.heartbeat_interval(), connect_attempt(job_)),
      lease_(job_.node_timeout, now),
      search_(job_.endpoints.size(), now),
      reports_(job_.hang_timeout, job_.hang_note) {}

MemberActions Member::begin() {
  MemberActions out;
  if (node_.health_check.empty()) {
    dial(waiting_.since(), 0, out);
  } else {
    check_health(waiting_.since(), true, out);
  }
  rearm(waiting_.since(), out);
  return out;
}

MemberActions Member::step(TimePoint now, const MemberEvent& event) {
  MemberActions out;
  if (state_ == State::ended) return out;
  if (round_active_) lease_.look(now);
  suspension_.look(now, armed_, job_.node_timeout);
  std::visit(
      Overloaded{[&](const HealthChecked& checked) { on_health_checked(now, checked.why_not, out); },
                 [&](const EndpointProbed& answer) { on_endpoint_probed(now, answer, out); },
                 [&](const LinkUp&) { on_link_up(now, out); },
                 [&](const LinkDown& down) { on_link_down(now, down.loss, out); },
                 [&](const FromCoordinator& from) { on_message(now, from.message, out); },
                 [&](const SignalCame& signal) {
                   const bool is_repeated =
                       signal.signo == SIGTERM && stop_signal_ == 0 && notice_.is_repeated(now);
                   if (!is_repeated) on_signal(now, signal.signo, out);
                 },
                 [&](const MemberTimer&) { on_timer(now, out); },
                 [&](const KeeperLost& keeper) { on_keeper_lost(keeper, out); },
                 [&](const RoundFailed& failed) { on_round_failed(now, failed, out); },
                 [&](const RoundDone& done) { on_round_done(done, out); },
                 [&](const RoundStopped& stopped) { on_round_stopped(now, stopped, out); },
                 [&](const RoundStuck& stuck) { on_stuck(stuck.failure, out); },
                 [&](const WorkersSeen& seen) { on_workers_seen(now, seen, out); },
                 [&](const WorkersInspected& inspected) { on_workers_inspected(inspected.report, out); },
                 [&](const JobAlreadyEnded& over) { on_job_already_ended(over.ending, out); },
                 [&](const PmiEnter& enter) { on_pmi_enter(enter, out); },
                 [&](const TimesReport& report) { on_times(report, out); },
                 [&](const ArrivalsReport& report) { on_arrivals(report, out); }},
      event);
  // A node that must stop does not search for another coordinator.
  if (stop_signal_ != 0 && !contact_.is_up() && state_ != State::leaving && state_ != State::ended)
    end_by_signal(out);
  rearm(now, out);
  return out;
}

// --- messages of the coordinator ---

void Member::on_message(TimePoint now, const Message& message, MemberActions& out) {
  if (contact_.has_given_up(now)) return give_up(now, out);
  contact_.on_message(now);
  std::visit(
      Overloaded{[&](const Refused& refused) { on_refused(now, refused, out); },
                 [&](const Welcome& welcome) { on_welcome(now, welcome, out); },
                 [&](const NewWorld& announced) { on_new_world(now, announced, out); },
                 [&](const StopRound& stop) { on_stop_round(stop, out); },
                 [&](const End& end) { end_with(end.outcome, out); },
                 [&](const Heartbeat& heartbeat) {
                   contact_.set_stamp(heartbeat.stamp);
                   clock_.on_answer(now, heartbeat.stamp, heartbeat.grant.echo);
                   take_grant(now, heartbeat.grant, out);
                 },
                 [&](const Notice& notice) {
                   last_notice_ = sanitize_for_terminal(notice.text);
                   out.emplace_back(LogMessage{Severity::info, last_notice_});
                 },
                 [&](const Preempt& preempt) { on_preempt(preempt, out); },
                 [&](const StackRequest& request) {
                   if (state_ == State::working && round_active_ && request.round == round_)
                     out.emplace_back(RequestStack{request.rank});
                 },
                 [&](const InspectionRequest& request) {
                   if (state_ == State::working && round_active_ && request.round == round_)
                     out.emplace_back(InspectWorkers{});
                 },
                 [&](const RanksRequest& request) { out.emplace_back(ReportRanks{request.rank_with_lines}); },
                 [&](const RestartHistory& history) {
                   world_.restarts_used = history.restarts_used;
                   world_.restarts = history.restarts;
                 },
                 [&](const PmiRelease& release) {
                   if (state_ == State::working && round_active_ && release.round == round_)
                     out.emplace_back(release);
                 },
                 [&](const LatenessReport& report) {
                   if (state_ == State::working && round_active_ && report.round == round_)
                     out.emplace_back(report);
                 },
                 [&](const OneOf<Join, Failed, Done, Stopped, Leave, Progress, Ask, PmiEnter, RanksReport,
                                 Inspected, TimesReport, ArrivalsReport, Hello, Challenge, Proof> auto&) {
                   ignore_unexpected(out);
                 }},
      message);
}

void Member::ignore_unexpected(MemberActions& out) {
  out.emplace_back(
      LogMessage{Severity::warning, "the coordinator sent a message that only members send; ignored"});
}

void Member::on_refused(TimePoint now, const Refused& refused, MemberActions& out) {
  if (!refused.for_good) {
    out.emplace_back(Disconnect{});
    on_link_down(now, {LossKind::released, refused.why}, out);
    return;
  }
  Failure failure =
      failure_here(FailureKind::join, (search_.endpoints() == 1 ? "node 0 at " : "") +
                                          describe_coordinator() + " refused this node: " + refused.why);
  failure.remedy = sanitize_for_terminal(refused.remedy);
  fail_with(std::move(failure), out);
}

void Member::on_new_world(TimePoint now, const NewWorld& announced, MemberActions& out) {
  const bool expected = state_ == State::joined || state_ == State::working;
  const bool newer =
      !joined_once_ || announced.world.round > round_ || announced.world.leader != world_.leader;
  if (!expected || !newer || round_active_) return;
  take_grant(now, announced.grant, out);
  if (announced.world.member(node_.agent) != nullptr && !lease_.is_granted(now))
    return give_up(now, out);  // the message is old: the others may have gone on without this node
  joined_once_ = true;
  contact_.set_leads(true);
  last_notice_.clear();
  world_ = announced.world;
  led_by_spare_ = world_.member(world_.leader) == nullptr;
  if (world_.leader != node_.agent)
    std::erase_if(world_.members, [&](const WorldMember& member) { return member.agent != node_.agent; });
  fencing_ = std::max(fencing_, world_.fencing);
  round_ = world_.round;
  world_came_ = now;
  if (!world_.member(node_.agent)) return;  // a spare only knows of it
  state_ = State::working;
  round_active_ = true;
  notice_.on_world();
  all_returned_0_ = false;
  renew_lease(out);
  lease_.begin_round();
  reports_.begin_round(now);
  out.emplace_back(ToGroup{StartWorkers{world_}});
}

void Member::on_stop_round(const StopRound& stop, MemberActions& out) {
  if (state_ != State::working || stop.round != round_) return;
  last_failure_ = stop.why;
  unnoticed_ = stop.unnoticed;
  look_at_the_end(out);
  stop_group(SIGTERM, out);
  if (stop.at_once) out.emplace_back(ToGroup{KillNow{}});
}

// --- time ---

void Member::on_timer(TimePoint now, MemberActions& out) {
  armed_.reset();
  if (contact_.is_lost(now)) return give_up(now, out);
  if (contact_.is_unanswered(now)) {
    out.emplace_back(Disconnect{});
    return on_link_down(
        now,
        {LossKind::silent, "what listens there took the connection, and did not answer within " +
                               to_words(contact_.answer_time())},
        out);
  }
  if (contact_.take_heartbeat(now)) out.emplace_back(ToCoordinator{contact_.heartbeat(now)});
  if (health_.take_kill(now)) out.emplace_back(KillHealthCheck{});
  enforce_fencing(now, out);
  if (const auto in_full = reports_.take_look(now)) out.emplace_back(LookAtWorkers{*in_full});
  if (notice_.take_end(now) && stop_signal_ == 0 && state_ != State::leaving) on_signal(now, SIGTERM, out);
  if (last_word_by_ && now >= *last_word_by_ && !round_active_ && state_ != State::leaving) {
    last_word_by_.reset();
    end_by_signal(out);
    return;
  }
  if (may_probe() && now >= search_.probe_at() && now < search_.parked_until())
    out.emplace_back(ProbeEndpoint{search_.probe_next(now)});
  if (state_ == State::connecting && search_.dial_at() && now >= *search_.dial_at()) {
    search_.begin(now);
    dial(now, search_.next(), out);
  } else if (state_ == State::joined && search_.is_parked() && !contact_.leads() &&
             now >= search_.parked_until()) {
    out.emplace_back(Disconnect{});
    on_link_down(now, {LossKind::released, no_leader}, out);
  } else if (may_be_forgotten() && now >= waiting_.deadline() + leave_timeout) {
    const Address& endpoint = job_.endpoint(search_.endpoint());
    Failure failure =
        failure_here(FailureKind::join, "waited " + to_words(now - waiting_.since()) + " for node 0 at " +
                                            to_string(endpoint) +
                                            ", which accepted the connection but never started the job");
    failure.remedy = remedy_of_silent_endpoint(endpoint);
    fail_with(std::move(failure), out);
  }
}

void Member::give_up(TimePoint now, MemberActions& out) {
  out.emplace_back(Disconnect{});
  on_link_down(now, {LossKind::silent, "no answer for " + to_words(now - contact_.last_heard())}, out);
}

void Member::take_grant(TimePoint now, const Grant& grant, MemberActions& out) {
  if (lease_.take(now, grant, round_active_) && round_active_) renew_lease(out);
}

void Member::renew_lease(MemberActions& out) {
  if (lease_.exists()) out.emplace_back(RenewLease{lease_.last_moment()});
}

void Member::rearm(TimePoint now, MemberActions& out) {
  if (state_ == State::ended) return;
  std::optional<TimePoint> next;
  const auto wake = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (!round_active_) reports_.end_round();
  for (const auto& at :
       {contact_.wake_at(), health_.kill_at(), lease_.fence_at(), reports_.look_at(), notice_.until()}) {
    if (at) wake(*at);
  }
  if (last_word_by_ && *last_word_by_ > now) wake(*last_word_by_);
  if (state_ == State::connecting && search_.dial_at()) wake(*search_.dial_at());
  if (state_ == State::joined && search_.is_parked() && !contact_.leads()) wake(search_.parked_until());
  if (may_probe()) wake(search_.probe_at());
  if (may_be_forgotten()) wake(waiting_.deadline() + leave_timeout);
  if (!next || next == armed_) return;
  armed_ = next;
  out.emplace_back(ArmMemberTimer{*next});
}

// The coordinator ends the wait for the other nodes. Without heartbeats the member does not wait much longer
// than that. A spare waits for as long as the job lasts.
bool Member::may_be_forgotten() const {
  return state_ == State::joined && job_.node_timeout == Duration(0) && !job_.elastic();
}

// --- the end ---

void Member::stop_group(int signo, MemberActions& out) { out.emplace_back(ToGroup{StopWorkers{signo}}); }

void Member::end_with(const Outcome& outcome, MemberActions& out) {
  outcome_ = outcome;
  state_ = State::leaving;
  if (round_active_) {
    stop_group(SIGTERM, out);
  } else {
    end_if_over(out);
  }
}

void Member::on_job_already_ended(const JobEnding& job, MemberActions& out) {
  if (!was_in(job) || state_ == State::leaving) return;
  out.emplace_back(LogMessage{Severity::warning, "the job has ended while this node was away"});
  end_with(job.outcome, out);
}

void Member::fail_with(Failure cause, MemberActions& out) {
  if (outcome_) {
    end_if_over(out);
    return;
  }
  Outcome outcome;
  outcome.failed = true;
  outcome.exit_code = exit_code_of(cause);
  outcome.cause = std::move(cause);
  if (contact_.is_up()) out.emplace_back(ToCoordinator{Leave{outcome.cause}});
  end_with(outcome, out);
}

void Member::end_if_over(MemberActions& out) {
  if (state_ != State::leaving || round_active_ || !outcome_) return;
  state_ = State::ended;
  const Failure& cause = outcome_->cause;
  if (node_.preempt_ok && all_returned_0_ && cause.kind == FailureKind::signal &&
      cause.status.number == SIGTERM)
    outcome_->exit_code = 0;
  if (contact_.is_up()) out.emplace_back(ToCoordinator{Stopped{round_}});
  out.emplace_back(MemberEnded{*outcome_});
}

Failure Member::failure_here(FailureKind kind, std::string why) const {
  Failure failure;
  failure.kind = kind;
  failure.round = round_;
  failure.node_rank = node_.node_rank;
  failure.host = node_.host;
  if (const WorldMember* own = world_.member(node_.agent)) failure.node_rank = own->node_rank;
  failure.why = std::move(why);
  return failure;
}

// A node that was suspended blames nobody: the others may have been right to go on without it.
Failure Member::lost_coordinator(TimePoint now, const Loss& loss) const {
  if (std::string own = suspension_.describe(now); !own.empty()) {
    Failure failure = failure_here(FailureKind::node_lost, own + ", and the others gave it up");
    failure.remedy = remedy_of_pause(failure.host, job_.node_timeout);
    return failure;
  }
  const Address& endpoint = job_.endpoint(search_.endpoint());
  Failure failure = failure_here(FailureKind::node_lost, describe(loss));
  failure.node_rank = 0;
  failure.host = endpoint.host;
  failure.remedy = remedy_of(loss, loss.kind == LossKind::closed ? endpoint.host : to_string(endpoint));
  return failure;
}

}  // namespace dlaunch::agent
