// Which MPI a process uses when the backend was built for several. Pure.
//
// Each MPI has a module of its own (mpi_open_mpi.so, mpi_mpich.so), and backend_mpi.so, which links none of
// them, loads one: a process can use only one MPI. A program that is linked with an MPI must get that one;
// any other gets the one whose launcher has started it, since no MPI finds the ranks of another one's.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

enum class MpiLibrary { open_mpi, mpich, other };  // other: any that CMake has found

struct MpiSituation {
  std::vector<MpiLibrary> built;   // the modules that are there
  std::vector<MpiLibrary> loaded;  // the MPIs that the process has loaded
};

struct MpiChoice {
  MpiLibrary library = MpiLibrary::other;
  std::string why_not;  // no MPI can be used, and how to start the program then; empty: `library` can
};

MpiChoice choose_mpi(const Environment& environment, const MpiSituation& situation);

// "Open MPI".
std::string name_of(MpiLibrary library);

}  // namespace dlaunch::internal
