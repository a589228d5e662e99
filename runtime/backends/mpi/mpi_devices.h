// Whether this MPI reads and writes the memory of CUDA devices itself ("CUDA-aware").
#pragma once

#include <mpi.h>

namespace dlaunch::internal {

// What MPI reports; DLAUNCH_MPI_CUDA=0 or 1 decides instead, for an MPI that cannot report it. Throws
// DistBackendError: the variable has another value. Any thread.
// REQUIRES: MPI is initialised.
bool mpi_takes_device_memory();

// Open MPI's non-blocking reductions are done by the host (its documentation of CUDA support).
#if defined(OPEN_MPI)
inline constexpr bool mpi_reduces_device_memory = false;
#else
inline constexpr bool mpi_reduces_device_memory = true;
#endif

}  // namespace dlaunch::internal
