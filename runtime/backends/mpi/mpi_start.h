// Whether this process is one of an MPI world, by its environment. Pure.
#pragma once

#include <string>

#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

// Why MPI cannot form a world here, and how to start the program then; empty: it can.
std::string why_no_mpi_world(const Environment& environment);

}  // namespace dlaunch::internal
