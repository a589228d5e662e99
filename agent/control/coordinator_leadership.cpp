// How a coordinator takes the lead of the job, keeps it and loses it.
#include <algorithm>
#include <functional>
#include <utility>

#include "agent/control/coordinator.h"
#include "agent/model/restart_policy.h"
#include "store/base/sanitize.h"
#include "store/base/text.h"

namespace dlaunch::agent {
namespace {

// Rounds of another coordinator are believed up to here. It is far below the highest round that a Join may
// name: even if a false Join claims this one, the job's own rounds have room above it.
constexpr std::uint32_t last_learned_round = 1U << 20;

}  // namespace

Welcome Coordinator::welcome(TimePoint now, const Membership::Node& node, bool leads, bool elsewhere) {
  return {
      leads, elsewhere, stamp_of(now), grant_to(now, node), leadership_.tokens().known(), unix_minus_stamp_};
}

void Coordinator::announce_leader(TimePoint now, bool leads, CoordinatorActions& out) {
  for (const auto& [member, node] : membership_.nodes())
    out.emplace_back(ToMember{member, welcome(now, node, leads, leads && was_superseded(node))});
}

// A node that is a member already has no reason to ask.
void Coordinator::on_ask(TimePoint now, MemberId member, const Ask& ask, CoordinatorActions& out) const {
  if (membership_.nodes().contains(member)) return;
  if (ask.job_id != job_.id) return refuse(member, {"this is another job"}, out);
  out.emplace_back(ToMember{member, Welcome{leads(), follows_another_, stamp_of(now), {}}});
  out.emplace_back(DropMember{member});
}

bool Coordinator::was_superseded(const Membership::Node& node) const {
  return node.joined.joined_once && node.joined.round + 1 < next_round_;
}

// Rounds and used restarts continue from another coordinator, or from this one before it was started again.
void Coordinator::learn_from(TimePoint now, const Join& join) {
  if (!join.joined_once) return;
  // A single coordinator knows all rounds after its first world: a higher one is no round of this job.
  const bool may_be_newer =
      join.round <= last_learned_round && (!leadership_.has_announced() || job_.may_move());
  const bool newer = may_be_newer && join.round >= next_round_;
  // The same world, with restarts that came after its announcement.
  const bool fuller = join.round + 1 == next_round_ && formed_ && join.restarts_used > world_.restarts_used;
  if (newer) next_round_ = join.round + 1;
  if (!newer && !fuller) return;
  if (state_ != State::standby && state_ != State::gathering) return;
  formed_ = true;
  world_.nodes = join.nodes;
  world_.restarts_used = std::min(join.restarts_used, job_.max_restarts);
  world_.restarts = join.restarts;
  job_began_ = now - std::clamp(join.age, Duration(0), now.time_since_epoch());
}

// A member of a majority may have followed another leader in between, also while this one led. A single
// coordinator learns until its first world: afterwards only a false Join can have a higher token.
void Coordinator::learn_fencing(MemberId member, const Join& join) {
  if (!leadership_.has_announced() || job_.may_move())
    leadership_.tokens().learn(join.fencing, member == local_member);
}

// A world may begin only if all present nodes know the range of its token: so the next leader learns it.
bool Coordinator::has_fencing(TimePoint now, CoordinatorActions& out) {
  if (leadership_.tokens().need_range()) {
    leadership_.take_range(now, job_.may_move());
    if (job_.may_move()) announce_leader(now, true, out);
  }
  return leadership_.range_is_known(membership_);
}

void Coordinator::on_election(TimePoint now, const LeadsUntil& leads, CoordinatorActions& out) {
  leadership_.set_elected_until(leads.until);
  if (leadership_.is_elected()) {
    if (state_ == State::standby) lead_if_enough(now, out);
    announce_when_complete(now, out);  // if only the lease was over
  } else if (state_ == State::running) {
    stop_world(now, "another node leads the job now", out);
    leadership_.fence_at(now);
    enforce_fencing(now, out);
  } else if (state_ == State::gathering) {
    lose_leadership(now, out);
  }
}

void Coordinator::lead_if_enough(TimePoint now, CoordinatorActions& out) {
  if (!leadership_.may_begin(membership_)) return;
  const Join* newest = nullptr;
  for (const auto& [member, node] : membership_.nodes()) {
    learn_from(now, node.joined);
    if (node.joined.joined_once && (newest == nullptr || node.joined.round > newest->round))
      newest = &node.joined;
    out.emplace_back(event_of(EventKind::joined, node, ""));
  }
  if (newest != nullptr) record_lost_leader(now, *newest, out);
  leadership_.take_range(now,
                         false);  // its Welcome carries the range, and all_follow() waits for the answer
  // The last leader's node is missing.
  const int enough =
      formed_ ? std::max(job_.elected ? 1 : leadership_.quorum(), world_.nodes - 1) : job_.nnodes;
  out.emplace_back(LogMessage{formed_ ? Severity::info : Severity::debug,
                              "this node leads the job now, at " + to_string(world_.store)});
  leadership_.begin(now);
  state_ = State::gathering;
  announce_leader(now, true, out);
  gather(now, enough, formed_ ? settling_time : job_.last_call, out);
}

// If the leader of the last world is not here, its loss is what ended that world.
void Coordinator::record_lost_leader(TimePoint now, const Join& of_last_world, CoordinatorActions& out) {
  if (of_last_world.leader == agent_ || membership_.of_agent(of_last_world.leader)) return;
  Failure failure;
  failure.kind = FailureKind::node_lost;
  failure.round = of_last_world.round;
  failure.host = shortened(sanitize_for_terminal(of_last_world.leader_host), longest_host);
  failure.why = "it was the leader";
  // If its connection was closed, its agent has ended, and only the nodes that followed it are awaited.
  if (of_last_world.lease >= of_last_world.rest)
    absent_.add(of_last_world.leader, "host " + failure.host, now - job_.node_timeout);
  remember(world_.restarts, {world_.restarts_used, now - job_began_, failure, {}, false});
  Event lost{EventKind::lost, of_last_world.round};
  lost.host = failure.host;
  lost.text = failure.why;
  out.emplace_back(std::move(lost));
}

// Other nodes may follow another leader: the nodes that are here must search for it.
void Coordinator::lose_leadership(TimePoint now, CoordinatorActions& out) {
  state_ = State::standby;
  leadership_.end();
  last_call_.cancel();
  waiting_ = Waiting(now, job_.join_timeout);
  if (job_.elected) {
    out.emplace_back(LogMessage{Severity::info, "this node is no longer the leader"});
  } else {
    out.emplace_back(LogMessage{
        Severity::info, "only " + pluralize(membership_.ready(), "node") + " of " +
                            std::to_string(job_.nnodes) + " " + (membership_.ready() == 1 ? "is" : "are") +
                            " here, fewer than a majority: another endpoint may lead"});
  }
  announce_leader(now, false, out);
  for (auto& [member, node] : membership_.nodes()) node.joined.stays = false;
}

// This agent must leave, and another endpoint can lead.
void Coordinator::resign(CoordinatorActions& out) {
  out.emplace_back(ToMember{local_member, End{resigning_.value_or(Outcome{})}});
  for (const auto& [member, node] : membership_.nodes()) {
    if (member == local_member) continue;
    if (job_.may_move())
      out.emplace_back(ToMember{member, Notice{"the leader was told to leave: searching for another one"}});
    out.emplace_back(DropMember{member});
  }
  state_ = State::ended;
  out.emplace_back(CoordinatorEnded{});
}

Grant Coordinator::grant_to(TimePoint now, const Membership::Node& node) {
  if (!leases_.exist()) return {};
  // A newer world does not wait for what such a node still runs.
  const bool left_behind = !node.stopped && !node.active && was_superseded(node);
  if (!leads() || left_behind) return {node.own, Duration(0)};
  return {node.own, leases_.grant(now, leadership_.granting_until(now, membership_))};
}

// Until then the workers could end by themselves.
void Coordinator::enforce_fencing(TimePoint now, CoordinatorActions& out) {
  if (!leadership_.take_fence(now)) return;
  for (const auto& [member, node] : membership_.nodes()) {
    if (node.active && !node.stopped)
      out.emplace_back(ToMember{member, StopRound{world_.round, "another node may lead the job now", true}});
  }
}

}  // namespace dlaunch::agent
