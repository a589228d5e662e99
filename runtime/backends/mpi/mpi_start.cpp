#include "runtime/backends/mpi/mpi_start.h"

#include <array>
#include <optional>
#include <string_view>

#include "store/contract/worker_env.h"

namespace dlaunch::internal {

namespace {

// Any of these: the process was started by Open MPI's mpirun, by one that speaks PMI (MPICH's, Intel's), or
// by srun with --mpi. They hold the world's size, if they are numbers of ranks at all.
constexpr std::array<std::string_view, 4> launcher_sizes = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                                            "MV2_COMM_WORLD_SIZE", "MPI_LOCALNRANKS"};
constexpr std::array<std::string_view, 2> other_marks = {"PMIX_RANK", "PMI_FD"};

constexpr const char* remedy =
    "start it with mpirun -n N PROGRAM, mpiexec, srun --mpi=..., dlaunch --mpi=pmi (MPICH) or dlaunch "
    "--mpi=pmix (Open MPI)";

}  // namespace

std::string why_no_mpi_world(const Environment& environment) {
  std::optional<std::string> size;
  bool is_marked = false;
  for (const std::string_view name : launcher_sizes) {
    if (!size) size = environment(name);
  }
  for (const std::string_view name : other_marks) is_marked = is_marked || environment(name).has_value();
  if (!size && !is_marked) return std::string("no MPI launcher started this process: ") + remedy;
  // An mpirun may have started dlaunch, whose workers then have its variables, but are others.
  const std::optional<std::string> own_size = environment(store::env::world_size);
  if (environment(store::env::job_id) && size && own_size && *own_size != *size) {
    return "dlaunch started " + *own_size + " ranks, and MPI's launcher " + *size + ": " + remedy;
  }
  return {};
}

}  // namespace dlaunch::internal
