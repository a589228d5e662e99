// How nodes join and leave a coordinator.
#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/control/coordinator.h"
#include "agent/model/remedy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// For a node that is not in it.
World only_with_leader(World world) {
  std::erase_if(world.members, [&](const WorldMember& member) { return member.agent != world.leader; });
  return world;
}

}  // namespace

// --- nodes that join ---

void Coordinator::on_join(TimePoint now, MemberId member, Join join, const std::string& address,
                          CoordinatorActions& out) {
  join.host = shortened(sanitize_for_terminal(join.host), longest_host);
  if (membership_.find(member) != nullptr) {
    refuse(member, {"it has joined already"}, out);
    return;
  }
  const bool missed_the_end = state_ == State::ending && join.joined_once && join.job_id == job_.id;
  if (missed_the_end) {
    out.emplace_back(ToMember{member, End{outcome_.value()}});
    out.emplace_back(DropMember{member});
  }
  // A node that comes back has noticed the end of its connection before this coordinator has.
  if (const auto before = membership_.of_agent(join.agent); join.agent != 0 && before) {
    out.emplace_back(DropMember{*before});
    on_lost(now, {*before, {LossKind::released, "it came back with a new connection"}}, out);
  }
  if (missed_the_end) return;
  absent_.remove(join.agent);
  earlier_worlds_.on_returned(join.agent);  // it reports itself when its workers are gone
  const bool forming = state_ == State::gathering || state_ == State::standby;
  const Admission::Situation situation{membership_, world_.restarts, forming, state_ == State::ending,
                                       fewest()};
  if (Admission::Refusal refusal = admission_.reason_to_refuse(join, situation); !refusal.why.empty()) {
    const std::string peer = join.node_rank < 0 ? "a node" : "node " + std::to_string(join.node_rank);
    out.emplace_back(
        LogMessage{Severity::warning, "refused " + peer + " (host " + join.host + "): " + refusal.why});
    admission_.remember("host " + join.host, refusal.why, refusal.remedy);
    refuse(member, {std::move(refusal.why), true, std::move(refusal.remedy)}, out);
    return;
  }
  if (!join.unfit.empty()) return on_unfit(now, member, join, out);
  const bool believed = leadership_.tokens().believes(now, join.fencing, member == local_member);
  if (std::string why = admission_.reason_to_wait(join, membership_, believed); !why.empty()) {
    refuse(member, {std::move(why), false}, out);
    return;
  }
  learn_fencing(member, join);
  const Membership::Node& node = membership_.add(member, join, address, now);
  if (member != local_member && job_.node_timeout > Duration(0) && !check_at_)
    check_at_ = now + job_.heartbeat_interval();
  if (state_ != State::standby) out.emplace_back(event_of(EventKind::joined, node, ""));
  out.emplace_back(LogMessage{
      Severity::debug, name_of(node) + " joined with " + pluralize(join.slots, "worker") + ": " +
                           std::to_string(membership_.ready()) + " of " + std::to_string(job_.nnodes)});
  if (state_ == State::standby) {
    out.emplace_back(ToMember{member, welcome(now, node, false, follows_another_)});
    lead_if_enough(now, out);
    return;
  }
  learn_from(now, join);
  if (formed_ && !join.joined_once)
    out.emplace_back(ToMember{member, NewWorld{only_with_leader(world_), {}}});
  out.emplace_back(ToMember{member, welcome(now, node, true, was_superseded(node))});
  if (state_ == State::gathering) {
    announce_when_complete(now, out);
  } else if (node.stopped) {  // otherwise once it has stopped
    take_in(now, node, out);
  }
}

// If the job needs every node, it ends at once instead of waiting for others.
void Coordinator::on_unfit(TimePoint now, MemberId member, const Join& join, CoordinatorActions& out) {
  constexpr std::size_t longest = 500;
  const std::string why = shortened(sanitize_for_terminal(join.unfit), longest);
  Failure failure;
  failure.kind = FailureKind::join;
  failure.node_rank = join.node_rank;
  failure.host = join.host;
  failure.why =
      (join.node_rank < 0 ? "host " + join.host
                          : "node " + std::to_string(join.node_rank) + " (host " + join.host + ")") +
      ": " + why;
  refuse(member, {why}, out);
  if (state_ == State::gathering && !formed_ && !job_.elastic()) {
    end_the_job_by(now, failure, out);
  } else {
    out.emplace_back(LogMessage{Severity::warning, failure.why});
    admission_.remember("host " + join.host, why);
  }
}

// A node has joined while a world runs.
void Coordinator::take_in(TimePoint now, const Membership::Node& node, CoordinatorActions& out) {
  if (state_ != State::running) return;
  if (world_.nodes < job_.nnodes && !membership_.any_done()) {
    stop_world(now, name_of(node) + " joined", out);
    out.emplace_back(
        LogMessage{Severity::info, name_of(node) + " joined: starting a new round with " +
                                       pluralize(std::min(membership_.ready(), job_.nnodes), "node")});
  } else {
    out.emplace_back(LogMessage{Severity::info, name_of(node) + " waits as a spare"});
  }
}

void Coordinator::refuse(MemberId member, Refused refused, CoordinatorActions& out) {
  out.emplace_back(ToMember{member, std::move(refused)});
  out.emplace_back(DropMember{member});
}

void Coordinator::on_leave(TimePoint now, MemberId member, const Leave& leave, CoordinatorActions& out) {
  Membership::Node& node = *membership_.find(member);
  const Failure& failure = leave.failure;
  if (failure.kind != FailureKind::signal) {
    if (may_go_on()) {
      membership_.set_leaving(member);
      on_node_lost(now, node, failure, out);
    } else {
      end_the_job_by(now, failure, out);
    }
    return;
  }
  Outcome outcome;
  outcome.failed = true;
  outcome.exit_code = exit_code_of(failure);
  outcome.cause = failure;
  outcome.restarts_used = world_.restarts_used;
  const bool needed = node.active && !node.done && membership_.ready() - 1 < job_.required_nodes();
  const bool waiting = state_ == State::gathering || state_ == State::standby;
  const bool decided = state_ == State::collecting || state_ == State::ending;
  if (member == local_member && job_.may_move() && !needed && !decided) {
    resigning_ = outcome;
    membership_.set_leaving(member);
    if (state_ == State::running) stop_world(now, name_of(node) + ", the leader, was told to leave", out);
    if (waiting || membership_.all_stopped()) resign(out);
    return;
  }
  const bool may_go = waiting || !node.active || (job_.elastic() && !needed);
  if (member == local_member || !may_go || state_ == State::collecting || state_ == State::ending) {
    end_the_job_by(now, failure, out);
    return;
  }
  out.emplace_back(LogMessage{Severity::info, name_of(node) + " leaves: " + describe(failure)});
  out.emplace_back(event_of(EventKind::left, node, describe(failure)));
  out.emplace_back(ToMember{member, End{outcome}});
  membership_.set_leaving(member);
  if (state_ == State::running && node.active && !node.done) stop_world(now, name_of(node) + " leaves", out);
  announce_when_complete(now, out);
}

void Coordinator::on_agent_leaves(TimePoint now, const Failure& failure, CoordinatorActions& out) {
  const bool again = state_ == State::ending || state_ == State::collecting;
  if (job_.may_move() || again) {
    resign(out);
  } else {
    end_the_job_by(now, failure, out);
  }
}

void Coordinator::on_lost(TimePoint now, const MemberLost& lost, CoordinatorActions& out) {
  const bool has_world = state_ == State::running || state_ == State::stopping || state_ == State::collecting;
  const TimePoint sure =
      has_world && !leadership_.has_fence() ? leadership_.sure_until(membership_) : TimePoint::min();
  const auto node = membership_.remove(lost.member);
  hang_detector_.forget(lost.member);
  ranks_reports_.forget(lost.member);
  if (node) earlier_worlds_.on_left_running(now, *node, lost.loss.other_may_go_on());
  if (node && lost.loss.other_may_go_on()) absent_.add(node->joined.agent, name_of(*node), node->last_heard);
  if (!node || state_ == State::standby) return;
  const bool expected = node->leaves() || node->done || state_ == State::ending;
  if (!expected && (state_ == State::gathering || !node->active)) {
    out.emplace_back(LogMessage{Severity::warning, name_of(*node) + " disconnected: " + lost.loss.why});
    out.emplace_back(event_of(EventKind::left, *node, lost.loss.why));
  } else if (!expected) {
    const Failure failure = disconnected(now, *node, lost.loss);
    if (may_go_on()) {
      on_node_lost(now, *node, failure, out);
    } else {
      end_the_job_by(now, failure, out);
    }
  }
  if (state_ == State::running && membership_.all_done()) {
    end(now, Outcome{}, out);
  } else if (state_ == State::running && leadership_.too_few(membership_)) {
    stop_world(now, "fewer than a majority of the nodes are here", out);
  } else if (state_ == State::gathering && leadership_.too_few(membership_)) {
    lose_leadership(now, out);
  }
  const bool runs = state_ == State::stopping || state_ == State::collecting;
  if (runs && leadership_.too_few(membership_) && !leadership_.has_fence()) leadership_.fence_at(sure);
  go_on_when_all_stopped(now, out);
}

// The others form a new world, now or when enough have come.
void Coordinator::on_node_lost(TimePoint now, const Membership::Node& node, const Failure& failure,
                               CoordinatorActions& out) {
  record(now, failure);
  const std::string remedy = failure.remedy.empty() ? "" : "; try: " + failure.remedy;
  out.emplace_back(LogMessage{Severity::warning, describe(failure) + remedy});
  out.emplace_back(event_of(EventKind::lost, node, failure.why));
  const int ready = membership_.ready();
  if (ready >= job_.required_nodes()) {
    out.emplace_back(LogMessage{Severity::info, "going on without " + name_of(node) + ", with " +
                                                    pluralize(std::min(ready, job_.nnodes), "node")});
  }
  // If only failures of workers were known, and no restart was left for them, the loss explains them.
  if (state_ == State::collecting && !failures_.ends_job()) {
    state_ = State::stopping;
    stop_deadline_ = now + job_.stop_timeout.longest() + end_margin;
  } else if (state_ == State::running) {
    stop_world(now, describe(failure), out, failure.unnoticed);
  }
}

// After the loss of a node: the others may form a new world, now or when another node has come.
bool Coordinator::may_go_on() const {
  if (state_ == State::collecting && failures_.ends_job()) return false;
  return job_.elastic() && (!job_.counts_membership || restarts_left());
}

Failure Coordinator::stopped_by_signal(const Membership::Node& node) const {
  Failure failure = lost_node(node, "");
  failure.kind = FailureKind::signal;
  failure.status = {ExitStatus::How::signaled, SIGTERM, false};
  return failure;
}

// The connection to a node has ended. If this process was suspended before, that node gave up this one.
Failure Coordinator::disconnected(TimePoint now, const Membership::Node& node, const Loss& loss) {
  Failure failure = lost_node(node, describe(loss));
  failure.remedy = remedy_of(loss, node.joined.host);
  if (loss.kind == LossKind::silent) failure.unnoticed = now - node.last_heard;
  const std::string own = suspension_.describe(now);
  const Membership::Node* const here = membership_.find(local_member);
  if (own.empty() || here == nullptr) return failure;
  failure.why = own + ", and " + name_of(node) + " gave it up";
  failure.node_rank = here->rank();
  failure.host = here->joined.host;
  failure.remedy = remedy_of_pause(failure.host, job_.node_timeout);
  return failure;
}

Failure Coordinator::lost_node(const Membership::Node& node, std::string why) const {
  Failure failure;
  failure.kind = FailureKind::node_lost;
  failure.round = world_.round;
  failure.node_rank = node.rank();
  failure.host = node.joined.host;
  failure.why = std::move(why);
  return failure;
}

}  // namespace dlaunch::agent
