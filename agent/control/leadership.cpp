#include "agent/control/leadership.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace dlaunch::agent {

Leadership::Leadership(const JobSpec& job, FencingTokens tokens)
    : all_nodes_(job.nnodes + job.spares),
      may_move_(job.may_move()),
      elected_(job.elected),
      node_timeout_(job.node_timeout),
      shortest_use_(job.heartbeat_interval() / 8),
      tokens_(tokens) {}

bool Leadership::may_begin(const Membership& here) const {
  return elected_ ? elected_until_ && here.ready() > 0
                  : here.ready() >= quorum() && here.staying() >= quorum();
}

bool Leadership::too_few(const Membership& here) const {
  return elected_ ? !elected_until_ : is_by_majority() && here.ready() < quorum();
}

void Leadership::set_elected_until(std::optional<TimePoint> until) {
  elected_until_ = until;
  granting_until_.reset();
}

TimePoint Leadership::sure_until(const Membership& here) const {
  if (elected_) return elected_until_.value_or(TimePoint::min());
  if (!may_move_ || node_timeout_ == Duration(0)) return TimePoint::max();
  std::vector<TimePoint> follow;
  for (const auto& [member, node] : here.nodes())
    follow.push_back(member == local_member ? TimePoint::max() : node.echoed + node_timeout_);
  const auto needed = static_cast<std::size_t>(quorum());
  if (follow.size() < needed) return TimePoint::min();
  std::nth_element(follow.begin(), follow.begin() + static_cast<std::ptrdiff_t>(needed) - 1, follow.end(),
                   std::greater<>());
  return follow[needed - 1];
}

TimePoint Leadership::granting_until(TimePoint now, const Membership& here) {
  const bool is_new = now < granting_checked_ + shortest_use_ && granting_changes_ == here.changes();
  if (!granting_until_ || *granting_until_ <= now || !is_new) {
    granting_until_ = sure_until(here);
    granting_checked_ = now;
    granting_changes_ = here.changes();
  }
  return *granting_until_;
}

void Leadership::begin(TimePoint now) {
  since_ = now;
  announced_ = false;
}

void Leadership::end() {
  announced_ = false;
  fence_at_.reset();
}

bool Leadership::all_follow(const Membership& here) const {
  return !since_ || here.all_have_answered(*since_);
}

void Leadership::take_range(TimePoint now, bool announces) {
  tokens_.take_range(now);
  range_announced_ = announces ? std::optional(now) : std::nullopt;
}

bool Leadership::range_is_known(const Membership& here) const {
  return !range_announced_ || here.all_have_answered(*range_announced_);
}

bool Leadership::take_fence(TimePoint now) {
  if (!fence_at_ || now < *fence_at_) return false;
  fence_at_ = TimePoint::max();
  return true;
}

std::optional<TimePoint> Leadership::next_fence() const {
  return fence_at_ == TimePoint::max() ? std::nullopt : fence_at_;
}

}  // namespace dlaunch::agent
