// The world that MPI's launcher has formed, for programs that name neither rank nor store.
#pragma once

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// Uses messages with the tag 32001 in MPI_COMM_WORLD, which the program's own must not have.
extern const BackendWorld mpi_world;

}  // namespace dlaunch::internal
