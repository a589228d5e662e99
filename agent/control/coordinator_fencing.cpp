// What a coordinator grants its members, and from when it may begin a world (agent/control/lease.h).
#include <algorithm>

#include "agent/control/coordinator.h"

namespace dlaunch::agent {

Grant Coordinator::grant_to(TimePoint now, const Membership::Node& node) {
  if (!leases_.exist()) return {};
  // A newer world does not wait for what such a node still runs.
  const bool left_behind = !node.stopped && !node.active && was_superseded(node);
  if (!leads() || left_behind) return {node.own, Duration(0)};
  // For each beat of thousands of nodes: it need not be new, since it only grows while the same nodes are
  // here.
  const bool is_new = now < granting_checked_ + job_.heartbeat_interval() / 8;
  if (!granting_until_ || *granting_until_ <= now || !is_new) {
    granting_until_ = sure_until();
    granting_checked_ = now;
  }
  return {node.own, leases_.grant(now, *granting_until_)};
}

// A node is gone, and has not said that its workers are.
void Coordinator::record_left_running(TimePoint now, const Membership::Node& node, bool silent) {
  if (node.stopped) return;
  // Longer than any lease: for what a keeper did not kill, since it was stopped as well.
  fenced_hosts_.add(node.address, leases_.exist() ? now + 3 * leases_.longest_fence() : TimePoint::max());
  if (!leases_.exist()) return;
  const TimePoint gone = silent ? leases_.gone_if_silent(node.last_heard) : leases_.gone_if_closed(now);
  TimePoint& known = left_running_[node.joined.agent];
  known = std::max(known, gone);
}

// A world may begin then: nothing of an earlier one runs any more, and the restart is not to wait longer.
TimePoint Coordinator::may_begin_at() const { return std::max(not_before_, earlier_worlds_gone_by()); }

// Nothing of an earlier world runs from then on.
TimePoint Coordinator::earlier_worlds_gone_by() const {
  TimePoint when = announced_ ? TimePoint::min() : others_worlds_gone_by();
  for (const auto& [agent, gone] : left_running_) when = std::max(when, gone);
  return when;
}

// The same of worlds that this coordinator has not led, or from before it laid down the lead: by what the
// nodes know that are here.
TimePoint Coordinator::others_worlds_gone_by() const {
  if (!leases_.exist()) return TimePoint::min();
  const Membership::Node* newest = nullptr;
  int remember = 0;
  for (const auto& [member, node] : membership_.nodes()) {
    if (!node.joined.joined_once) continue;
    ++remember;
    if (newest == nullptr || node.joined.round > newest->joined.round) newest = &node;
  }
  // All that may take part are here, and all are new: there was no world.
  const bool all_new = newest == nullptr && membership_.ready() >= job_.nnodes + job_.spares;
  if (all_new) return TimePoint::min();
  // One that led at the only endpoint before has ended, but may have left a node that it had granted a lease.
  if (newest == nullptr && !job_.may_move()) return leases_.gone_if_silent(began_);
  const auto of_newest = [&](const Membership::Node& node) {
    return newest != nullptr && node.joined.joined_once && node.joined.round == newest->joined.round &&
           node.joined.leader == newest->joined.leader;
  };
  int seated = 0;
  for (const auto& [member, node] : membership_.nodes())
    seated += of_newest(node) && node.joined.sticky_rank >= 0 ? 1 : 0;
  const int missing = newest != nullptr ? newest->joined.nodes - seated : job_.nnodes;
  if (newest != nullptr && missing <= 0)
    return TimePoint::min();  // whoever is here says when its workers are gone
  const bool only_leader = newest != nullptr && missing == 1 && !membership_.of_agent(newest->joined.leader);
  // Of a majority that remembers one member was in the last leader's. Without it the others count, which may
  // have replaced one.
  const bool enough_remember = newest != nullptr && (!by_majority() || remember >= quorum());
  const bool only_its_lease = only_leader && enough_remember;
  TimePoint when = TimePoint::min();
  for (const auto& [member, node] : membership_.nodes()) {
    if (only_its_lease ? !of_newest(node) : enough_remember && !node.joined.joined_once) continue;
    const Duration told = only_its_lease ? node.joined.lease : node.joined.rest;
    when = std::max(when, node.came + std::clamp(told, Duration(0), leases_.longest_fence()));
  }
  if (!job_.elected || !leading_since_) return when;
  // The last leader's lease is over, or was given back before its time.
  const TimePoint since = *leading_since_;
  if (newest == nullptr) return std::max(when, leases_.gone_if_silent(since));
  const bool closed = only_its_lease && when <= leases_.gone_if_closed(since);
  return closed ? when : std::max(when, leases_.gone_if_elected(since));
}

}  // namespace dlaunch::agent
