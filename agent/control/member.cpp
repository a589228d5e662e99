#include "agent/control/member.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/control/loss_text.h"
#include "agent/control/one_of.h"
#include "agent/model/job_rules.h"
#include "agent/model/root_cause.h"
#include "store/base/overloaded.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

bool is_from_keyboard(int signo) { return signo == SIGINT || signo == SIGQUIT; }

}  // namespace

Member::Member(JobSpec job, NodeSpec node, std::string build, TimePoint now)
    : job_(std::move(job)),
      node_(std::move(node)),
      build_(std::move(build)),
      began_(now),
      join_deadline_(now + job_.join_timeout),
      report_at_(now + first_report),
      leases_(job_.node_timeout),
      search_began_(now),
      stall_monitor_(job_.hang_timeout) {
  // Another agent may have been here until now, and have followed somebody.
  leader_gone_by_ = rest_gone_by_ = leases_.exist() ? leases_.gone_with_leader(now) : now;
}

MemberActions Member::begin() {
  MemberActions out;
  if (node_.health_check.empty()) {
    dial(0, out);
  } else {
    check_was_first_ = true;
    check_health(began_, out);
    rearm(began_, out);
  }
  return out;
}

MemberActions Member::step(TimePoint now, const MemberEvent& event) {
  MemberActions out;
  if (state_ == State::ended) return out;
  lease_over_ = lease_over_ ||
                (leases_.exist() && round_active_ && now >= leases_.last_moment(granted_until_, Duration(0)));
  suspension_.look(now, armed_, job_.node_timeout);
  std::visit(Overloaded{[&](const HealthChecked& checked) { on_health_checked(now, checked.why_not, out); },
                        [&](const EndpointProbed& answer) { on_endpoint_probed(now, answer, out); },
                        [&](const LinkUp&) { on_link_up(now, out); },
                        [&](const LinkDown& down) { on_link_down(now, down, out); },
                        [&](const FromCoordinator& from) { on_message(now, from.message, out); },
                        [&](const SignalCame& signal) { on_signal(now, signal.signo, out); },
                        [&](const MemberTimer&) { on_timer(now, out); },
                        [&](const KeeperLost& keeper) { on_keeper_lost(keeper, out); },
                        [&](const RoundFailed& failed) { on_round_failed(now, failed, out); },
                        [&](const RoundDone& done) { on_round_done(done, out); },
                        [&](const RoundStopped& stopped) { on_round_stopped(now, stopped, out); },
                        [&](const RoundStuck& stuck) { on_stuck(stuck.failure, out); },
                        [&](const WorkersSeen& seen) { on_workers_seen(now, seen, out); },
                        [&](const JobAlreadyEnded& over) { on_job_already_ended(over.ending, out); }},
             event);
  // Who was told to stop does not look for another coordinator.
  if (stop_signal_ != 0 && !link_ && state_ != State::leaving && state_ != State::ended) end_by_signal(out);
  rearm(now, out);
  return out;
}

// --- the way to a coordinator ---

void Member::dial(std::size_t endpoint, MemberActions& out) {
  state_ = State::connecting;
  endpoint_ = endpoint;
  dial_at_.reset();
  out.emplace_back(Dial{endpoint});
}

void Member::on_link_up(TimePoint now, MemberActions& out) {
  if (state_ != State::connecting) return;
  link_ = true;
  has_leader_ = false;
  if (job_.elected) {  // there is no other to look for; its agent may only not have heard of its election
    parked_ = true;
    parked_until_ = now + shortest_park;
  }
  state_ = State::joined;
  last_heard_ = now;
  if (job_.node_timeout > Duration(0)) heartbeat_at_ = now + job_.heartbeat_interval();
  out.emplace_back(ToCoordinator{join(now)});
}

Join Member::join(TimePoint now) const {
  Join join;
  join.job_id = job_.id;
  join.min_nodes = job_.required_nodes();
  join.nnodes = job_.nnodes;
  join.max_restarts = job_.max_restarts;
  join.node_rank = node_.node_rank;
  join.slots = node_.slots;
  join.host = node_.host;
  join.build = build_;
  join.agent = node_.agent;
  join.joined_once = joined_once_;
  join.stopped = !round_active_ && !check_until_;
  join.stays = parked_ || endpoints() == 1;
  join.rules = rules_of(job_);
  join.role = node_.role;
  join.lease = std::max(Duration(0), leader_gone_by_ - now);
  join.rest = std::max(Duration(0), rest_gone_by_ - now);
  join.stamp = stamp_of(now);
  join.unfit = node_.unfit;
  join.fencing = fencing_;
  if (!joined_once_) return join;
  join.leader = world_.leader;
  join.leader_host = world_.store.host;
  join.round = round_;
  if (const WorldMember* own = world_.member(node_.agent)) join.sticky_rank = own->sticky_rank;
  join.nodes = world_.nodes;
  join.restarts_used = world_.restarts_used;
  join.restarts = world_.restarts;
  join.age = world_.age + (now - world_came_);
  return join;
}

void Member::on_welcome(TimePoint now, const Welcome& welcome, MemberActions& out) {
  if (state_ == State::leaving) return;
  stamp_ = welcome.stamp;
  if (welcome.leads) {
    fencing_ = std::max(fencing_, welcome.fencing);  // before the answer, which confirms it
    if (job_.may_move()) out.emplace_back(ToCoordinator{Heartbeat{stamp_, stamp_of(now), {}}});
    has_leader_ = true;
    if (!welcome.elsewhere) fencing_deadline_.reset();  // it waits until our workers are gone
    take_grant(now, welcome.grant, out);
    parked_ = false;
    tried_ = 0;
    fallback_.reset();
    return;
  }
  if (has_leader_) {  // it has stepped down, and will tell so to nobody who follows another
    has_leader_ = false;
    began_ = now;
    join_deadline_ = now + job_.join_timeout;
    leader_gone_by_ = now;
    rest_gone_by_ = leases_.exist() ? leases_.gone_if_silent(now) : now;
    state_ = State::joined;
    tried_ = 0;
    fallback_.reset();
    parked_ = false;
  }
  if (parked_ && !welcome.elsewhere) return;
  if (parked_) tried_ = endpoints();
  if (!welcome.elsewhere && (!fallback_ || endpoint_ < *fallback_)) fallback_ = endpoint_;
  last_refusal_ = "no endpoint that answers leads; a majority of the nodes must come to one";
  report_waiting(now, last_refusal_, out);
  out.emplace_back(Disconnect{});
  link_ = false;
  heartbeat_at_.reset();
  try_next_endpoint(now, out);
}

void Member::on_link_down(TimePoint now, const LinkDown& down, MemberActions& out) {
  const std::string& why = down.why;
  const bool followed = has_leader_ || state_ == State::working;
  link_ = false;
  has_leader_ = false;
  heartbeat_at_.reset();
  if (state_ == State::leaving) {
    end_if_over(out);
  } else if (followed && may_find_another()) {
    restart_search(now, down.silent, why, out);
  } else if (state_ == State::working) {
    fail_with(lost_coordinator(now, describe_loss(why, down.silent, job_.endpoint(endpoint_).host)), out);
  } else if (state_ == State::joined && !may_find_another()) {
    fail_with(failure_here(FailureKind::join, describe_disconnect(followed, why)), out);
  } else if (now >= join_deadline_) {
    fail_with(failure_here(FailureKind::join,
                           "waited " + to_words(job_.join_timeout) + " for " + describe_endpoints() +
                               (endpoints() == 1 ? ", which never answered: " : ": ") + why +
                               (joined_once_ ? "; the job may have ended without this node" : "")),
              out);
  } else {
    last_refusal_ = why;
    report_waiting(now, why, out);
    if (parked_) tried_ = endpoints();  // where we stayed is gone, or does not lead: from the beginning
    try_next_endpoint(now, out);
  }
}

// The coordinator is lost: the workers stop, and this node looks for the next one.
void Member::restart_search(TimePoint now, bool silent, const std::string& why, MemberActions& out) {
  out.emplace_back(LogMessage{Severity::warning, "lost the coordinator at " + describe_coordinator() + ": " +
                                                     why + (round_active_ ? "; stopping the workers" : "")});
  began_ = now;
  join_deadline_ = now + job_.join_timeout;
  report_at_ = now + first_report;
  pause_ = first_pause;
  // A leader whose connection was closed has ended; one that fell silent may go on to lead others.
  if (leases_.exist()) {
    leader_gone_by_ = silent ? leases_.gone_with_leader(last_heard_) : leases_.gone_if_closed(now);
    rest_gone_by_ = silent ? leader_gone_by_ : leases_.gone_if_silent(now);
  }
  if (round_active_) {
    stop_group(SIGTERM, out);
    if (leases_.exist()) fencing_deadline_ = granted_until_;
  }
  tried_ = 0;
  fallback_.reset();
  parked_ = false;
  search_began_ = now;
  try_next_endpoint(now, out);  // the lost one is the last to be tried again
}

// From then on the others of the job may have formed a new world without this node, and a worker of the old
// one must not meet it, however long it was to be given to end.
void Member::enforce_fencing(TimePoint now, MemberActions& out) {
  if (!fencing_deadline_ || now < *fencing_deadline_) return;
  fencing_deadline_.reset();
  if (!round_active_) return;
  out.emplace_back(LogMessage{
      Severity::warning, "killing the workers: the others may go on without this node now (--node-timeout)"});
  out.emplace_back(ToGroup{KillNow{}});
}

void Member::report_waiting(TimePoint now, const std::string& why, MemberActions& out) {
  if (now < report_at_) return;
  report_at_ = now + next_report;
  out.emplace_back(LogMessage{Severity::info, "waiting for " + describe_endpoints() + " since " +
                                                  to_words(now - began_) + ", until " +
                                                  to_words(join_deadline_ - now) + " from now: " + why});
}

std::string Member::describe_disconnect(bool was_dlaunch, const std::string& why) const {
  if (was_dlaunch) return "node 0 at " + to_string(job_.master) + " hung up before the job began: " + why;
  return "what listens at " + to_string(job_.master) + " hung up before the job began: " + why +
         "; check that this is the address of node 0, and that it runs dlaunch, too (a torchrun cannot take "
         "part in its job)";
}

std::string Member::describe_coordinator() const {
  if (job_.elected) return joined_once_ ? to_string(world_.store) : "the elected node";
  return to_string(job_.endpoint(endpoint_));
}

std::string Member::describe_endpoints() const {
  if (job_.elected) return "a leader, elected at etcd (" + to_string(job_.master) + ")";
  if (endpoints() == 1) return "node 0 at " + to_string(job_.master);
  std::string text;
  for (const Address& endpoint : job_.endpoints)
    text.append(text.empty() ? "" : " or ").append(to_string(endpoint));
  return "a coordinator at " + text;
}

// --- what the coordinator says ---

void Member::on_message(TimePoint now, const Message& message, MemberActions& out) {
  if (is_given_up(now)) return give_up(now, out);
  last_heard_ = now;
  std::visit(
      Overloaded{
          [&](const Refused& refused) { on_refused(now, refused, out); },
          [&](const Welcome& welcome) { on_welcome(now, welcome, out); },
          [&](const NewWorld& announced) { on_new_world(now, announced, out); },
          [&](const StopRound& stop) { on_stop_round(stop, out); },
          [&](const End& end) { end_with(end.outcome, out); },
          [&](const Heartbeat& heartbeat) {
            stamp_ = heartbeat.stamp;
            take_grant(now, heartbeat.grant, out);
          },
          [&](const Notice& notice) {
            last_notice_ = sanitize_for_terminal(notice.text);
            out.emplace_back(LogMessage{Severity::info, last_notice_});
          },
          [&](const Preempt& preempt) { on_preempt(preempt, out); },
          [&](const RestartHistory& history) {
            world_.restarts_used = history.restarts_used;
            world_.restarts = history.restarts;
          },
          [&](const OneOf<Join, Failed, Done, Stopped, Leave, Progress, Ask, Hello, Challenge, Proof> auto&) {
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
    on_link_down(now, {refused.why}, out);
    return;
  }
  fail_with(failure_here(FailureKind::join, (endpoints() == 1 ? "node 0 at " : "") + describe_coordinator() +
                                                " refused this node: " + refused.why),
            out);
}

void Member::on_new_world(TimePoint now, const NewWorld& announced, MemberActions& out) {
  const bool expected = state_ == State::joined || state_ == State::working;
  const bool newer =
      !joined_once_ || announced.world.round > round_ || announced.world.leader != world_.leader;
  if (!expected || !newer || round_active_) return;
  take_grant(now, announced.grant, out);
  if (leases_.exist() && announced.world.member(node_.agent) != nullptr && now >= granted_until_)
    return give_up(now, out);  // it was long under way: others may have gone on without this node
  joined_once_ = true;
  has_leader_ = true;
  last_notice_.clear();
  world_ = announced.world;
  fencing_ = std::max(fencing_, world_.fencing);
  round_ = world_.round;
  world_came_ = now;
  if (!world_.member(node_.agent)) return;  // a spare only knows of it
  state_ = State::working;
  round_active_ = true;
  fencing_deadline_.reset();  // it was for the workers of before
  notice_sent_ = false;
  all_returned_0_ = false;
  renew_lease(out);
  lease_over_ = false;
  stall_monitor_.begin(now);
  quiet_ = Duration(0);
  stall_reported_ = final_report_sent_ = false;
  if (stall_monitor_.is_on()) look_at_ = now + stall_monitor_.period();
  out.emplace_back(ToGroup{StartWorkers{world_}});
}

void Member::on_stop_round(const StopRound& stop, MemberActions& out) {
  if (state_ != State::working || stop.round != round_) return;
  last_failure_ = stop.why;
  look_at_the_end(out);
  stop_group(SIGTERM, out);
  if (stop.at_once) out.emplace_back(ToGroup{KillNow{}});
}

// --- what the workers do ---

void Member::on_keeper_lost(const KeeperLost& keeper, MemberActions& out) {
  round_active_ = false;
  fail_with(failure_here(FailureKind::agent, keeper.why), out);
}

void Member::on_round_failed(TimePoint now, const RoundFailed& failed, MemberActions& out) {
  const Duration age = now - failed.when;
  if (is_suspect(failed.failure)) {
    if (state_ == State::working && !preempt_pending_ && !lease_over_)
      out.emplace_back(ToCoordinator{Failed{failed.failure, age}});
    return;
  }
  if (!failed.failure.while_stopping) last_failure_ = describe(failed.failure);
  look_at_the_end(out);
  if (preempt_pending_ && stop_signal_ == 0) {
    on_signal(now, SIGTERM, out);  // to end was what it was asked for: no failure, and no restart
  } else if (state_ == State::working && lease_over_) {
    const std::string why = "its agent did not move for more than " + to_words(job_.node_timeout) +
                            " (stopped, or the machine was)";
    out.emplace_back(ToCoordinator{Failed{failure_here(FailureKind::node_lost, why), age}});
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
    check_health(now, out);  // it says Stopped once it is well
  } else {
    on_round_over(Stopped{stopped.round}, out);
  }
}

void Member::on_round_over(const Message& said, MemberActions& out) {
  round_active_ = false;
  if (link_ && (state_ == State::working || state_ == State::joined)) out.emplace_back(ToCoordinator{said});
  end_if_over(out);
}

// --- where the workers stand ---

void Member::look_at_the_end(MemberActions& out) {
  if (state_ != State::working || !round_active_ || std::exchange(final_report_sent_, true)) return;
  look_at_.reset();
  out.emplace_back(LookAtWorkers{true});
}

// While nothing moves the coordinator is told with each look, and once when that is over.
void Member::on_workers_seen(TimePoint now, const WorkersSeen& seen, MemberActions& out) {
  if (state_ != State::working) return;
  quiet_ = stall_monitor_.is_on() ? stall_monitor_.observe(now, seen.activity) : Duration(0);
  Progress progress{round_, quiet_, seen.activity.open > 0 || stall_monitor_.saw_long_polling(),
                    seen.group_progress.value_or(std::vector<GroupProgress>{})};
  const bool moves_again = quiet_ < stall_monitor_.report_after() && stall_reported_;
  if (!seen.group_progress && !moves_again) return;
  stall_reported_ = !moves_again;
  if (!final_report_sent_ || !progress.groups.empty())
    out.emplace_back(ToCoordinator{bounded(std::move(progress))});
}

// --- this node's health ---

void Member::check_health(TimePoint now, MemberActions& out) {
  check_until_ = now + node_.health_timeout;
  check_killed_ = false;
  if (leases_.exist()) out.emplace_back(RenewLease{TimePoint::max()});  // it is no worker
  out.emplace_back(RunHealthCheck{});
}

void Member::on_health_checked(TimePoint now, const std::string& why_not, MemberActions& out) {
  if (!check_until_) return;
  check_until_.reset();
  if (state_ == State::leaving) return end_if_over(out);
  if (why_not.empty() && std::exchange(check_was_first_, false)) {
    search_began_ = now;
    dial(0, out);
  } else if (why_not.empty()) {
    on_round_over(Stopped{round_}, out);
  } else {
    const std::string why =
        check_killed_ ? "it took longer than " + to_words(node_.health_timeout) + " (--health-check-timeout)"
                      : why_not;
    fail_with(failure_here(FailureKind::health, why), out);
  }
}

// --- what this machine says ---

void Member::on_signal(TimePoint now, int signo, MemberActions& out) {
  const bool means_stop =
      std::find(node_.stop_signals.begin(), node_.stop_signals.end(), signo) != node_.stop_signals.end();
  if (!means_stop) {
    if (round_active_) out.emplace_back(ForwardSignal{signo});
    return;
  }
  if (stop_signal_ != 0) {
    // Supervisors repeat SIGTERM, and terminals SIGHUP; a person at a keyboard is impatient.
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
  if (signo == SIGTERM && may_get_notice && !preempt_pending_) return give_notice(now, out);
  stop_signal_ = signo;
  Failure cause = failure_here(FailureKind::signal, "");
  cause.status = {ExitStatus::How::signaled, signo, false};
  if (link_ && state_ != State::leaving) {
    out.emplace_back(ToCoordinator{Leave{cause}});
    // Should the coordinator have no last word for us, this node ends on its own.
    last_word_by_ = now + job_.stop_timeout.of(signo) + leave_timeout;
  }
  if (round_active_) {
    log_how_workers_end(signo, out);
    stop_group(signo, out);
  }
  if (!link_) fail_with(cause, out);
}

void Member::log_how_workers_end(int signo, MemberActions& out) const {
  if (job_.stop_timeout.sent_for(signo) == SIGKILL) {
    out.emplace_back(LogMessage{Severity::info, "told to end by " + signal_name(signo) +
                                                    ": killing the workers, which are given no time "
                                                    "(--stop-timeout)"});
    return;
  }
  out.emplace_back(LogMessage{Severity::info,
                              "passing " + signal_name(signo) + " on to the workers; they have " +
                                  to_words(job_.stop_timeout.of(signo)) + " to end (" +
                                  (is_from_keyboard(signo) ? "a second signal" : "Ctrl-C") + " kills them)"});
}

// A planned end (Slurm, Kubernetes): workers may save what they have before the SIGTERM.
void Member::give_notice(TimePoint now, MemberActions& out) {
  preempt_pending_ = true;
  notice_until_ = now + node_.preempt_notice;
  if (!std::exchange(notice_sent_, true)) out.emplace_back(ForwardSignal{node_.preempt_signal});
  out.emplace_back(ToCoordinator{Preempt{round_}});
  out.emplace_back(LogMessage{
      Severity::info, "told to end: giving the workers notice by " + signal_name(node_.preempt_signal) +
                          "; " + signal_name(job_.stop_timeout.sent_for(SIGTERM)) + " follows in " +
                          to_words(node_.preempt_notice) + " (a second signal sends it at once)"});
}

// Another node will end. The signal may kill who does not expect it: only those get it who were promised one.
void Member::on_preempt(const Preempt& preempt, MemberActions& out) {
  const bool run = state_ == State::working && round_active_ && stop_signal_ == 0;
  if (!run || preempt.round != round_ || node_.preempt_signal == 0 || std::exchange(notice_sent_, true))
    return;
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
  if (link_ && state_ != State::leaving) out.emplace_back(ToCoordinator{Leave{failure}});
  // What cannot be killed cannot be waited for either: this node ends, and says so by its exit code.
  Outcome outcome;
  outcome.failed = true;
  // That the stop was asked for does not explain how it ended.
  const bool failed_before = outcome_ && outcome_->failed && outcome_->cause.kind != FailureKind::signal;
  outcome.cause = failed_before ? outcome_->cause : failure;
  outcome.exit_code = exit_code_of(outcome.cause);
  outcome_ = std::move(outcome);
  state_ = State::leaving;
  end_if_over(out);
}

// --- time ---

void Member::on_timer(TimePoint now, MemberActions& out) {
  armed_.reset();
  // Where it was this process that slept, what the coordinator has said meanwhile is still to be read.
  const bool overslept = heartbeat_at_ && now - *heartbeat_at_ > job_.heartbeat_interval();
  if (is_given_up(now) || (link_ && heartbeat_at_ && !overslept && now >= last_heard_ + job_.node_timeout)) {
    give_up(now, out);
    return;
  }
  if (link_ && heartbeat_at_ && now >= *heartbeat_at_) {
    heartbeat_at_ = now + job_.heartbeat_interval();
    out.emplace_back(ToCoordinator{Heartbeat{stamp_, stamp_of(now), {}}});
  }
  if (check_until_ && now >= *check_until_ && !std::exchange(check_killed_, true))
    out.emplace_back(KillHealthCheck{});
  enforce_fencing(now, out);
  if (look_at_ && now >= *look_at_) {
    look_at_ = now + stall_monitor_.period();
    out.emplace_back(LookAtWorkers{quiet_ >= stall_monitor_.report_after()});
  }
  if (notice_until_ && now >= *notice_until_) {
    notice_until_.reset();
    if (stop_signal_ == 0 && state_ != State::leaving) on_signal(now, SIGTERM, out);
  }
  if (last_word_by_ && now >= *last_word_by_ && !round_active_ && state_ != State::leaving) {
    last_word_by_.reset();
    end_by_signal(out);
    return;
  }
  if (may_probe() && now >= probe_at_ && now < parked_until_) probe_next(now, out);
  if (state_ == State::connecting && dial_at_ && now >= *dial_at_) {
    search_began_ = now;
    dial((endpoint_ + 1) % endpoints(), out);
  } else if (state_ == State::joined && parked_ && !has_leader_ && now >= parked_until_) {
    out.emplace_back(Disconnect{});
    on_link_down(now, {"no endpoint that answers leads; a majority of the nodes must come to one", false},
                 out);
  } else if (may_be_forgotten() && now >= join_deadline_ + leave_timeout) {
    fail_with(failure_here(FailureKind::join, "waited " + to_words(now - began_) + " for node 0 at " +
                                                  to_string(job_.endpoint(endpoint_)) +
                                                  ", which took the connection but never started the job"),
              out);
  }
}

// By a coordinator that has not heard of this node for so long: what it had said before is of the past.
bool Member::is_given_up(TimePoint now) const {
  return link_ && heartbeat_at_ && now >= last_heard_ + job_.node_timeout + job_.heartbeat_interval();
}

void Member::give_up(TimePoint now, MemberActions& out) {
  out.emplace_back(Disconnect{});
  on_link_down(now, {"no sign of life for " + to_words(now - last_heard_), true}, out);
}

void Member::take_grant(TimePoint now, const Grant& grant, MemberActions& out) {
  const TimePoint from{Duration(grant.echo)};
  if (!leases_.exist() || from > now) return;
  // What runs beyond the fence is of a world that is over; this grant is for the next one.
  if (round_active_ && fencing_deadline_) return;
  granted_until_ = from + std::clamp(grant.lease, Duration(0), job_.node_timeout);
  if (round_active_) renew_lease(out);
}

void Member::renew_lease(MemberActions& out) {
  if (leases_.exist()) out.emplace_back(RenewLease{leases_.last_moment(granted_until_, Duration(0))});
}

void Member::rearm(TimePoint now, MemberActions& out) {
  if (state_ == State::ended) return;
  std::optional<TimePoint> next;
  const auto wake = [&](TimePoint at) { next = next ? std::min(*next, at) : at; };
  if (link_ && heartbeat_at_) wake(std::min(*heartbeat_at_, last_heard_ + job_.node_timeout));
  if (check_until_ && !check_killed_) wake(*check_until_);
  if (fencing_deadline_) wake(*fencing_deadline_);
  if (!round_active_) look_at_.reset();
  if (look_at_) wake(*look_at_);
  if (notice_until_) wake(*notice_until_);
  if (last_word_by_ && *last_word_by_ > now) wake(*last_word_by_);
  if (state_ == State::connecting && dial_at_) wake(*dial_at_);
  if (state_ == State::joined && parked_ && !has_leader_) wake(parked_until_);
  if (may_probe()) wake(probe_at_);
  if (may_be_forgotten()) wake(join_deadline_ + leave_timeout);
  if (!next || next == armed_) return;
  armed_ = next;
  out.emplace_back(ArmMemberTimer{*next});
}

// The coordinator ends the wait for the other nodes; where no beats tell that it lives, we do not wait for it
// much longer. A spare waits for as long as the job lasts.
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
  if (link_) out.emplace_back(ToCoordinator{Leave{outcome.cause}});
  end_with(outcome, out);
}

void Member::end_if_over(MemberActions& out) {
  if (state_ != State::leaving || round_active_ || !outcome_) return;
  state_ = State::ended;
  const Failure& cause = outcome_->cause;
  if (node_.preempt_ok && all_returned_0_ && cause.kind == FailureKind::signal &&
      cause.status.number == SIGTERM)
    outcome_->exit_code = 0;
  if (link_) out.emplace_back(ToCoordinator{Stopped{round_}});
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

// Who has not moved itself accuses nobody: the others may have been right to go on without it.
Failure Member::lost_coordinator(TimePoint now, std::string why) const {
  if (std::string own = suspension_.describe(now); !own.empty())
    return failure_here(FailureKind::node_lost, own + ", and the others gave it up");
  Failure failure = failure_here(FailureKind::node_lost, std::move(why));
  failure.node_rank = 0;
  failure.host = job_.endpoint(endpoint_).host;
  return failure;
}

}  // namespace dlaunch::agent
