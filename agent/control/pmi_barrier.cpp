#include "agent/control/pmi_barrier.h"

#include <algorithm>
#include <utility>

namespace dlaunch::agent {

std::vector<PmiRelease> PmiBarrier::take(MemberId member, const PmiEnter& enter,
                                         const Membership& membership) {
  if (enter.round != round_ || is_full()) return {};
  if (enter.returned_rank >= 0) {
    returned_.emplace(member, enter.returned_rank);
    if (enter.waits) missed_by_ = enter.returned_rank;
    return {};
  }
  if (enter.barrier != barrier_ || here_.contains(member)) return {};
  for (const PmiEntry& entry : enter.entries) {
    bytes_ += size_of(entry);
    if (is_full()) return {};
    entries_.push_back(entry);
  }
  if (!enter.last) return {};
  here_.insert(member);
  const bool are_all_here =
      std::all_of(membership.nodes().begin(), membership.nodes().end(),
                  [&](const auto& node) { return !node.second.active || here_.contains(node.first); });
  if (!are_all_here) return {};
  std::vector<PmiRelease> releases;
  for (std::vector<PmiEntry>& piece : in_messages(std::exchange(entries_, {})))
    releases.push_back({round_, barrier_, std::move(piece), false});
  releases.back().last = true;
  here_.clear();
  ++barrier_;
  return releases;
}

std::optional<int> PmiBarrier::missed_by() const {
  if (here_.empty()) return missed_by_;
  for (const auto& [member, rank] : returned_) {
    if (!here_.contains(member)) return rank;
  }
  return missed_by_;
}

}  // namespace dlaunch::agent
