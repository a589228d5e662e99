// How many ranks of the world MPI's launcher has started on this host.
#pragma once

#include <optional>

#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

// From the variables of Open MPI, MPICH and Intel MPI, MVAPICH, dlaunch, IBM's jsrun, HPE's PALS, or Slurm.
// None: the launcher has not told.
std::optional<int> ranks_on_host(const Environment& environment);

}  // namespace dlaunch::internal
