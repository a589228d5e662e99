#include "runtime/group/group_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/comma_separated.h"
#include "runtime/base/deadline.h"
#include "runtime/group/default_group.h"

namespace dlaunch::internal {

std::vector<int> checked_members(std::vector<int> ranks, int world_size) {
  if (ranks.empty()) {
    ranks.resize(static_cast<std::size_t>(world_size));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  std::ranges::sort(ranks);
  if (ranks.front() < 0 || ranks.back() >= world_size) {
    throw DistError("new_group: the ranks " + comma_separated(ranks) +
                    " are not all in range for a world of " + std::to_string(world_size) + " ranks");
  }
  if (std::ranges::adjacent_find(ranks) != ranks.end()) {
    throw DistError("new_group: a rank occurs twice in " + comma_separated(ranks));
  }
  return ranks;
}

namespace {

// With local synchronization the other ranks do not come.
SplitSource split_source(const std::vector<ChosenModule>& modules, const GroupImpl& all, bool is_local) {
  if (is_local) return {};
  for (const GroupImpl::DeviceBackend& source : all.split_sources()) {
    const auto is_same = [&](const ChosenModule& chosen) { return chosen.module == source.module; };
    if (std::ranges::any_of(modules, is_same)) return {source.module, source.backend};
  }
  return {};
}

}  // namespace

GroupPlan plan_group(std::string name, const std::vector<int>& ranks, const NewGroupOptions& options,
                     const GroupImpl& all) {
  const GroupDescription& parent = all.description();
  const std::vector<int> members = checked_members(ranks, parent.size);
  const auto own = std::ranges::find(members, parent.rank);
  GroupDescription description{std::move(name),
                               own == members.end() ? -1 : static_cast<int>(own - members.begin()),
                               static_cast<int>(members.size()), options.timeout.value_or(all.timeout()),
                               options.backend.empty() ? parent.backend : plain_name(options.backend)};
  if (!is_timeout(description.timeout)) throw DistError(std::string("new_group: ") + no_timeout_at_all);
  description.ranks = members;
  description.global_rank = parent.rank;
  description.cuda_device = parent.cuda_device;
  for (const int member : members) {
    if (static_cast<std::size_t>(member) < parent.hosts.size()) {
      description.hosts.push_back(parent.hosts[static_cast<std::size_t>(member)]);
      description.compares.push_back(parent.compares[static_cast<std::size_t>(member)]);
    }
  }
  std::vector<ChosenModule> modules = choose_modules(registry(), description.backend);
  SplitSource split = split_source(modules, all, options.use_local_synchronization);
  return {std::move(description), std::move(modules), std::move(split)};
}

// FNV-1a
std::string hash_of(const std::vector<int>& ranks) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const int rank : ranks) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3U;
  return std::to_string(hash);
}

}  // namespace dlaunch::internal
