#include "runtime/backends/mpi/mpi_host_ranks.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace dlaunch::internal {
namespace {

std::optional<int> ranks(const std::map<std::string, std::string, std::less<>>& variables) {
  return ranks_on_host([&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

std::optional<int> of_slurm(const std::string& tasks, const std::string& node) {
  return ranks({{"SLURM_STEP_TASKS_PER_NODE", tasks}, {"SLURM_NODEID", node}});
}

TEST(MpiHostRanks, AreThoseThatTheLauncherNames) {
  for (const char* const name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE",
                                 "LOCAL_WORLD_SIZE", "JSM_NAMESPACE_LOCAL_SIZE", "PALS_LOCAL_SIZE"}) {
    EXPECT_EQ(ranks({{name, "3"}}), 3) << name;
    EXPECT_EQ(ranks({{name, "0"}}), std::nullopt) << name;
    EXPECT_EQ(ranks({{name, "3x"}}), std::nullopt) << name;
  }
}

TEST(MpiHostRanks, AreTheTasksOfASlurmNode) {
  EXPECT_EQ(of_slurm("4", "0"), 4);
  EXPECT_EQ(of_slurm("2,1", "0"), 2);
  EXPECT_EQ(of_slurm("2,1", "1"), 1);
  EXPECT_EQ(of_slurm("16(x3),8,2(x2)", "2"), 16);
  EXPECT_EQ(of_slurm("16(x3),8,2(x2)", "3"), 8);
  EXPECT_EQ(of_slurm("16(x3),8,2(x2)", "5"), 2);
}

TEST(MpiHostRanks, AreNotKnownFromTextThatSlurmDoesNotWrite) {
  EXPECT_EQ(of_slurm("2,1", "2"), std::nullopt);
  EXPECT_EQ(of_slurm("2,1", "-1"), std::nullopt);
  EXPECT_EQ(of_slurm("2,1", ""), std::nullopt);
  for (const char* const tasks : {"", "x", "0", "2(x", "2(x)", "2(x0)", "-2"})
    EXPECT_EQ(of_slurm(tasks, "0"), std::nullopt) << tasks;
  EXPECT_EQ(ranks({{"SLURM_NODEID", "0"}}), std::nullopt);
}

// mpirun within a Slurm job: a step of Slurm has started its daemons.
TEST(MpiHostRanks, AreThoseOfMpirunWithinSlurm) {
  EXPECT_EQ(ranks({{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                   {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
                   {"SLURM_NODEID", "0"}}),
            8);
}

}  // namespace
}  // namespace dlaunch::internal
