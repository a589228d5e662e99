#include "runtime/backends/mpi/mpi_start.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

namespace dlaunch::internal {
namespace {

std::string answer(const std::map<std::string, std::string, std::less<>>& variables) {
  return why_no_mpi_world([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(MpiStart, IsPossibleUnderEachLauncher) {
  EXPECT_EQ(answer({{"OMPI_COMM_WORLD_SIZE", "4"}}), "");
  EXPECT_EQ(answer({{"PMI_SIZE", "4"}}), "");
  EXPECT_EQ(answer({{"PMI_FD", "5"}}), "");
  EXPECT_EQ(answer({{"PMIX_RANK", "0"}}), "");
}

TEST(MpiStart, ReportsHowToStartTheProgram) {
  EXPECT_EQ(
      answer({}),
      "no MPI launcher started this process: start it with mpirun -n N PROGRAM, mpiexec, srun --mpi=..., "
      "dlaunch --mpi=pmi (MPICH) or dlaunch --mpi=pmix (Open MPI)");
  EXPECT_EQ(
      answer({{"DLAUNCH_JOB_ID", "job"}, {"WORLD_SIZE", "4"}}),
      "no MPI launcher started this process: start it with mpirun -n N PROGRAM, mpiexec, srun --mpi=..., "
      "dlaunch --mpi=pmi (MPICH) or dlaunch --mpi=pmix (Open MPI)");
}

TEST(MpiStart, TheRanksOfDlaunchAreNotThoseOfAnMpirunAroundIt) {
  EXPECT_EQ(answer({{"DLAUNCH_JOB_ID", "job"}, {"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "2"}}),
            "dlaunch started 4 ranks, and MPI's launcher 2: start it with mpirun -n N PROGRAM, mpiexec, "
            "srun --mpi=..., dlaunch --mpi=pmi (MPICH) or dlaunch --mpi=pmix (Open MPI)");
  EXPECT_EQ(answer({{"DLAUNCH_JOB_ID", "job"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), "");
  EXPECT_EQ(answer({{"WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_SIZE", "2"}}), "");
}

}  // namespace
}  // namespace dlaunch::internal
