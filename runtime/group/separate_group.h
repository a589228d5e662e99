// Groups that are made of a store of their own, beside the default group and without it: for bindings whose
// programs have groups of their own, such as PyTorch's.
#pragma once

#include <vector>

#include "dlaunch/distributed.h"

namespace dlaunch::internal {

// `options`: with a store, rank and world_size. `ranks`: the members' ranks in the job, by rank; empty: 0 to
// world_size - 1, the whole job. Throws as init_process_group. Any thread; two calls may run at once.
ProcessGroup make_separate_group(const InitOptions& options, const std::vector<int>& ranks);

// False: the group is none of them, or is destroyed already.
bool destroy_separate_group(const ProcessGroup& group);

}  // namespace dlaunch::internal
