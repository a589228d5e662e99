#include "runtime/backends/mpi/mpi_choice.h"

#include <algorithm>
#include <optional>

#include "runtime/backends/mpi/mpi_start.h"

namespace dlaunch::internal {

namespace {

bool contains(const std::vector<MpiLibrary>& libraries, MpiLibrary one) {
  return std::ranges::find(libraries, one) != libraries.end();
}

// The MPI whose launcher has started this process; none: it is not known whose.
std::optional<MpiLibrary> launched_for(const Environment& environment) {
  if (environment("OMPI_COMM_WORLD_SIZE") || environment("PMIX_RANK")) return MpiLibrary::open_mpi;
  for (const std::string_view name : {"PMI_FD", "PMI_PORT", "PMI_SIZE"}) {
    if (environment(name)) return MpiLibrary::mpich;
  }
  return std::nullopt;
}

}  // namespace

std::string name_of(MpiLibrary library) {
  switch (library) {
    case MpiLibrary::open_mpi:
      return "Open MPI";
    case MpiLibrary::mpich:
      return "MPICH";
    case MpiLibrary::other:
      break;
  }
  return "another MPI";
}

MpiChoice choose_mpi(const Environment& environment, const MpiSituation& situation) {
  const std::vector<MpiLibrary>& built = situation.built;
  if (built.empty()) return {MpiLibrary::other, "it was built without an MPI"};
  if (std::string why = why_no_mpi_world(environment); !why.empty()) return {built.front(), std::move(why)};
  if (contains(built, MpiLibrary::other)) return {MpiLibrary::other, ""};
  const std::optional<MpiLibrary> launched = launched_for(environment);
  // Slurm's PMIx serves both, and its PMI-2 any that is linked with its library.
  const bool serves_both = environment("SLURM_PROCID").has_value();
  const MpiLibrary wanted =
      !situation.loaded.empty() ? situation.loaded.front() : launched.value_or(built.front());
  if (!contains(built, wanted)) {
    const std::string whose =
        situation.loaded.empty() ? "the process was started by a launcher of " : "the process has loaded ";
    return {wanted, whose + name_of(wanted) + ", and the backend was built for " + name_of(built.front()) +
                        ": use one MPI for both"};
  }
  if (launched && *launched != wanted && !serves_both) {
    return {wanted, "the process has loaded " + name_of(wanted) + ", and was started by a launcher of " +
                        name_of(*launched) + ": use one MPI for both"};
  }
  return {wanted, ""};
}

}  // namespace dlaunch::internal
