// What a call of new_group asks for. Pure but for the backend modules that it loads.
#pragma once

#include <string>
#include <vector>

#include "dlaunch/distributed.h"
#include "runtime/group/backend_choice.h"
#include "runtime/group/group_description.h"
#include "runtime/group/group_impl.h"

namespace dlaunch::internal {

struct GroupPlan {
  GroupDescription description;
  std::vector<ChosenModule> modules;
  SplitSource split = {};  // all ranks of the default group take part
};

// `ranks`: in the default group `all`; empty: all of them. Throws DistError if an argument is wrong.
GroupPlan plan_group(std::string name, const std::vector<int>& ranks, const NewGroupOptions& options,
                     const GroupImpl& all);

// The ranks in ascending order; all of the world if there are none. Throws DistError: out of range, or twice.
std::vector<int> checked_members(std::vector<int> ranks, int world_size);

// For a key that the members of one set of ranks have in common.
std::string hash_of(const std::vector<int>& ranks);

}  // namespace dlaunch::internal
