#include "agent/control/earlier_worlds.h"

#include <algorithm>

namespace dlaunch::agent {

// The newest world that a member remembers.
struct EarlierWorlds::LastWorld {
  explicit LastWorld(const Membership& here) {
    for (const auto& [member, node] : here.nodes()) {
      if (!node.joined.joined_once) continue;
      ++remember;
      if (newest == nullptr || node.joined.round > newest->joined.round) newest = &node;
    }
  }
  [[nodiscard]] bool has(const Membership::Node& node) const {
    return newest != nullptr && node.joined.joined_once && node.joined.round == newest->joined.round &&
           node.joined.leader == newest->joined.leader;
  }

  int remember = 0;  // members that were in any world
  const Membership::Node* newest = nullptr;
  bool only_its_lease = false;  // of its leader, which alone is missing
};

EarlierWorlds::EarlierWorlds(const JobSpec& job, TimePoint began, bool had_predecessor)
    : leases_(job.node_timeout),
      began_(began),
      nnodes_(job.nnodes),
      all_nodes_(job.nnodes + job.spares),
      may_move_(job.may_move()),
      elected_(job.elected),
      had_predecessor_(had_predecessor) {}

void EarlierWorlds::on_left_running(TimePoint now, const Membership::Node& node, bool silent) {
  if (node.stopped) return;
  // Longer than any lease: for what a keeper did not kill, since it was stopped as well.
  fenced_hosts_.add(node.address, leases_.exist() ? now + 3 * leases_.longest_fence() : TimePoint::max());
  if (!leases_.exist()) return;
  const TimePoint gone = silent ? leases_.gone_if_silent(node.last_heard) : leases_.gone_if_closed(now);
  TimePoint& known = left_running_[node.joined.agent];
  known = std::max(known, gone);
}

TimePoint EarlierWorlds::gone_by(const Membership& here, const Leadership& leadership) {
  TimePoint when = TimePoint::min();
  if (!leadership.has_announced()) {
    if (!computed_ || computed_->changes != here.changes() || computed_->since != leadership.since())
      computed_ = {here.changes(), leadership.since(), others_gone_by(here, leadership)};
    when = computed_->gone;
  }
  for (const auto& [agent, gone] : left_running_) when = std::max(when, gone);
  return when;
}

bool EarlierWorlds::may_run(TimePoint now) const {
  return std::any_of(left_running_.begin(), left_running_.end(),
                     [now](const auto& left) { return left.second > now; });
}

// Of worlds that this coordinator has not led, or from before it lost the lead: by what the members know.
TimePoint EarlierWorlds::others_gone_by(const Membership& here, const Leadership& leadership) const {
  if (!leases_.exist()) return TimePoint::min();
  LastWorld last(here);
  const Membership::Node* const newest = last.newest;
  // All that may take part are here, and all are new: there was no world, unless this coordinator succeeds
  // one whose nodes have all been replaced.
  if (newest == nullptr && here.ready() >= all_nodes_)
    return had_predecessor_ ? leases_.gone_if_silent(began_) : TimePoint::min();
  // The only endpoint's earlier coordinator led until it ended. A node that is not here may have a lease from
  // its last moment, in a world after all that the members remember. (Spare nodes are not counted anywhere.)
  const TimePoint since_its_end = may_move_ ? TimePoint::min() : leases_.gone_if_silent(began_);
  if (newest == nullptr && !may_move_) return since_its_end;
  int with_rank = 0;
  for (const auto& [member, node] : here.nodes())
    with_rank += last.has(node) && node.joined.sticky_rank >= 0 ? 1 : 0;
  const int missing = newest != nullptr ? newest->joined.nodes - with_rank : nnodes_;
  const bool only_leader = newest != nullptr && missing == 1 && !here.of_agent(newest->joined.leader);
  // Each member of it that is here reports when its workers are gone.
  if (newest != nullptr && missing <= 0) return since_its_end;
  // Of a majority that remembers one member was in the last leader's. Without it the others count, which may
  // have replaced one.
  const bool enough_remember =
      newest != nullptr && (!leadership.is_by_majority() || last.remember >= leadership.quorum());
  last.only_its_lease = only_leader && enough_remember;
  const TimePoint when = std::max(since_its_end, leases_over_by(here, last, enough_remember));
  if (!elected_ || !leadership.since()) return when;
  // The last leader's lease is over, or was given back before its time.
  const TimePoint since = *leadership.since();
  if (newest == nullptr) return std::max(when, leases_.gone_if_silent(since));
  const bool closed = last.only_its_lease && when <= leases_.gone_if_closed(since);
  return closed ? when : std::max(when, leases_.gone_if_elected(since));
}

TimePoint EarlierWorlds::leases_over_by(const Membership& here, const LastWorld& last,
                                        bool enough_remember) const {
  TimePoint when = TimePoint::min();
  for (const auto& [member, node] : here.nodes()) {
    if (last.only_its_lease ? !last.has(node) : enough_remember && !node.joined.joined_once) continue;
    const Duration told = last.only_its_lease ? node.joined.lease : node.joined.rest;
    when = std::max(when, node.came + std::clamp(told, Duration(0), leases_.longest_fence()));
  }
  return when;
}

}  // namespace dlaunch::agent
