// How a member finds the endpoint whose coordinator leads the job (agent/control/endpoint_search.h).
#include <utility>

#include "agent/control/member.h"
#include "agent/model/job_rules.h"
#include "agent/model/remedy.h"

namespace dlaunch::agent {

void Member::dial(TimePoint now, std::size_t endpoint, MemberActions& out) {
  state_ = State::connecting;
  contact_.dial(now);
  search_.dial(endpoint);
  out.emplace_back(Dial{endpoint});
}

void Member::on_link_up(TimePoint now, MemberActions& out) {
  if (state_ != State::connecting) return;
  contact_.begin(now);
  // There is no other leader to search for; its agent may not know yet that it was elected.
  if (job_.elected) search_.park_here(now);
  state_ = State::joined;
  out.emplace_back(ToCoordinator{join(now)});
}

Join Member::join(TimePoint now) const {
  Join join;
  join.job_id = job_.id;
  join.node_rank = node_.node_rank;
  join.slots = node_.slots;
  join.host = node_.host;
  join.build = build_;
  join.agent = node_.agent;
  join.joined_once = joined_once_;
  join.stopped = !round_active_ && !health_.is_running();
  join.stays = search_.is_parked() || search_.endpoints() == 1;
  join.rules = rules_of(job_);
  join.role = node_.role;
  join.lease = lease_.left_on_leader(now);
  join.rest = lease_.left_on_others(now);
  join.stamp = stamp_of(now);
  join.unfit = node_.unfit;
  join.fencing = fencing_;
  if (!joined_once_) return join;
  if (led_by_spare_) join.lease = join.rest;  // if one node of its world is missing, it is not the leader's
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
  contact_.set_stamp(welcome.stamp);
  if (welcome.leads) {
    clock_.begin(welcome.unix_minus_stamp);
    clock_.on_answer(now, welcome.stamp, welcome.grant.echo);
    fencing_ = std::max(fencing_, welcome.fencing);  // before the answer, which confirms it
    if (job_.may_move()) out.emplace_back(ToCoordinator{contact_.heartbeat(now)});
    if (times_ && !contact_.leads()) out.emplace_back(ToCoordinator{*times_});
    contact_.set_leads(true);
    if (!welcome.elsewhere) lease_.clear_fence();  // the leader waits until our workers are gone
    take_grant(now, welcome.grant, out);
    search_.end();
    return;
  }
  if (contact_.leads()) {  // it has lost its leadership
    contact_.set_leads(false);
    waiting_.renew(now, job_.join_timeout);
    lease_.on_leader_stepped_down(now);
    state_ = State::joined;
    search_.end();
  }
  if (search_.is_parked() && !welcome.elsewhere) return;
  search_.leave_park();
  if (!welcome.elsewhere) search_.offer_fallback();
  last_refusal_ = no_leader;
  report_waiting(now, last_refusal_, out);
  out.emplace_back(Disconnect{});
  contact_.end();
  try_next_endpoint(now, out);
}

void Member::on_link_down(TimePoint now, const Loss& loss, MemberActions& out) {
  const std::string& why = loss.why;
  const bool followed = contact_.leads() || state_ == State::working;
  contact_.end();
  if (state_ == State::leaving) {
    end_if_over(out);
  } else if (followed && may_find_another()) {
    restart_search(now, loss, out);
  } else if (state_ == State::working) {
    fail_with(lost_coordinator(now, loss), out);
  } else if (state_ == State::joined && !may_find_another()) {
    Failure failure = failure_here(FailureKind::join, describe_disconnect(followed, loss));
    if (!followed) failure.remedy = remedy_of_silent_endpoint(job_.master);
    fail_with(std::move(failure), out);
  } else if (waiting_.is_over(now)) {
    const bool is_one = search_.endpoints() == 1 && !job_.elected;
    Failure failure = failure_here(FailureKind::join,
                                   "waited " + to_words(job_.join_timeout) + " for " + describe_endpoints() +
                                       (search_.endpoints() == 1 ? ", which never answered: " : ": ") + why +
                                       (joined_once_ ? "; the job may have ended without this node" : ""));
    if (is_one && !joined_once_) failure.remedy = remedy_of_silent_endpoint(job_.master);
    fail_with(std::move(failure), out);
  } else {
    last_refusal_ = why;
    report_waiting(now, why, out);
    search_.leave_park();
    try_next_endpoint(now, out);
  }
}

// The coordinator is lost: the workers stop, and this node searches for the next one.
void Member::restart_search(TimePoint now, const Loss& loss, MemberActions& out) {
  out.emplace_back(LogMessage{Severity::warning, "lost the coordinator at " + describe_coordinator() + ": " +
                                                     loss.why +
                                                     (round_active_ ? "; stopping the workers" : "")});
  waiting_ = Waiting(now, job_.join_timeout);
  lease_.on_leader_lost(now, loss.other_may_go_on(), contact_.last_heard(), round_active_);
  if (round_active_) stop_group(SIGTERM, out);
  search_.restart(now);
  try_next_endpoint(now, out);  // the lost one is the last to be tried again
}

// From then on the other nodes may have formed a new world. A worker of the old world must not meet it,
// however long its stop timeout is.
void Member::enforce_fencing(TimePoint now, MemberActions& out) {
  if (!lease_.take_fence(now) || !round_active_) return;
  out.emplace_back(
      LogMessage{Severity::warning,
                 "killing the workers: the other nodes may go on without this one now (--node-timeout)"});
  out.emplace_back(ToGroup{KillNow{}});
}

void Member::report_waiting(TimePoint now, const std::string& why, MemberActions& out) {
  if (!waiting_.take_report(now)) return;
  out.emplace_back(LogMessage{
      Severity::info, "waiting for " + describe_endpoints() + " (" + to_words(now - waiting_.since()) +
                          " so far; giving up in " + to_words(waiting_.deadline() - now) + "): " + why});
}

std::string Member::describe_disconnect(bool was_dlaunch, const Loss& loss) const {
  const std::string peer = "node 0 at " + to_string(job_.master);
  if (!was_dlaunch) {
    const std::string nobody = "found no " + peer + ": ";
    if (loss.kind == LossKind::silent)
      return nobody + "what listens there sent nothing for " + to_words(job_.node_timeout) +
             ": probably not dlaunch";
    return nobody + (loss.kind == LossKind::closed
                         ? "what listens there closed the connection: probably not dlaunch"
                         : loss.why);
  }
  return loss.kind == LossKind::closed
             ? peer + " closed the connection before the job started"
             : "lost the connection to " + peer + " before the job started: " + loss.why;
}

std::string Member::describe_coordinator() const {
  if (job_.elected) return joined_once_ ? to_string(world_.store) : "the elected node";
  return to_string(job_.endpoint(search_.endpoint()));
}

std::string Member::describe_endpoints() const {
  if (job_.elected) return "a leader, elected at etcd (" + to_string(job_.master) + ")";
  if (search_.endpoints() == 1) return "node 0 at " + to_string(job_.master);
  std::string text;
  for (const Address& endpoint : job_.endpoints)
    text.append(text.empty() ? "" : " or ").append(to_string(endpoint));
  return "a coordinator at " + text;
}

void Member::try_next_endpoint(TimePoint now, MemberActions& out) {
  state_ = State::connecting;
  const bool was_parked = search_.is_parked();
  const auto next = search_.advance(now, waiting_.deadline());
  if (!was_parked && search_.is_parked()) {
    out.emplace_back(LogMessage{Severity::debug, "no endpoint leads the job: waiting at " +
                                                     to_string(job_.endpoint(*next)) +
                                                     ", and asking the others"});
  }
  if (next) dial(now, *next, out);
}

void Member::on_endpoint_probed(TimePoint now, const EndpointProbed& answer, MemberActions& out) {
  if (!may_probe() || !search_.take_answer(now, answer)) return;
  if (answer.leads) {
    out.emplace_back(LogMessage{
        Severity::debug,
        "the coordinator at " + to_string(job_.endpoint(answer.endpoint)) + " leads the job: joining it"});
  }
  out.emplace_back(Disconnect{});
  contact_.end();
  dial(now, answer.endpoint, out);
}

}  // namespace dlaunch::agent
