// What is taken from mpirun, and what is refused.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

TEST(Mpi, OneDlaunchPerHostNeedsAnEndpoint) {
  const EnvironmentMap open_mpi{{"OMPI_COMM_WORLD_SIZE", "2"},
                                {"OMPI_COMM_WORLD_RANK", "1"},
                                {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                                {"PMIX_NAMESPACE", "77@1"}};
  EXPECT_EQ(
      refused(open_mpi),
      "Open MPI's mpirun started 2 dlaunch, but does not say on which host the first one is; name the first "
      "host with --rdzv-endpoint=HOST:PORT");
  EXPECT_TRUE(values(found(open_mpi, given({{"nnodes", "1"}}))).empty());
  const DetectedScheduler detected = found(open_mpi, given({{"rdzv-endpoint", "h:1"}}));
  EXPECT_EQ(values(detected), (std::map<std::string, std::string>{
                                  {"nnodes", "2"}, {"node-rank", "1"}, {"rdzv-id", "mpi-77@1"}}));
  EXPECT_EQ(detected.notice, "Open MPI's mpirun: nodes 2, node rank 1, id mpi-77@1");
}

TEST(Mpi, AllOnOneHostFindEachOtherAndAreWarned) {
  const DetectedScheduler detected = found({{"OMPI_COMM_WORLD_SIZE", "2"},
                                            {"OMPI_COMM_WORLD_RANK", "0"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                            {"PMIX_NAMESPACE", "77"}});
  EXPECT_EQ(values(detected).at("master-addr"), "127.0.0.1");
  EXPECT_TRUE(values(detected).contains("master-port"));
  EXPECT_EQ(
      detected.warnings,
      Words{"Open MPI's mpirun started 2 dlaunch on this node, each counts as a node: use one per node, and "
            "--nproc-per-node for the workers"});
}

TEST(Mpi, HydraAndPlainPmi) {
  const Settings endpoint = given({{"rdzv-endpoint", "h:1"}});
  EXPECT_EQ(values(found({{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}, {"MPI_LOCALNRANKS", "1"}}, endpoint)),
            (std::map<std::string, std::string>{{"nnodes", "3"}, {"node-rank", "2"}}));
  EXPECT_EQ(values(found({{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}}, endpoint)).at("node-rank"), "2");
  // srun's own PMI is Slurm; mpirun inside a Slurm job is mpirun.
  EXPECT_EQ(found(with(slurm, {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}})).name, "Slurm step 42.3");
  EXPECT_EQ(found(with(slurm, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}})).name,
            "Open MPI's mpirun");
  EXPECT_EQ(found({{"PMI_SIZE", "many"}, {"PMI_RANK", "2"}}).name, "") << "not numbers: not ours";
}

TEST(Mpi, OtherLaunchersByTheirVariables) {
  const Settings endpoint = given({{"rdzv-endpoint", "h:1"}});
  const std::vector<std::pair<std::string, EnvironmentMap>> launchers{
      // Intel MPI's Hydra.
      {"mpiexec", {{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}, {"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}}},
      {"MVAPICH's mpirun_rsh",
       {{"MV2_COMM_WORLD_SIZE", "3"}, {"MV2_COMM_WORLD_RANK", "2"}, {"MV2_COMM_WORLD_LOCAL_SIZE", "1"}}},
      // IBM's jsrun in a job of LSF.
      {"Open MPI's mpirun",
       {{"OMPI_COMM_WORLD_SIZE", "3"},
        {"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"LSB_JOBID", "42"},
        {"LSB_MCPU_HOSTS", "n1 1 n2 1 n3 1"}}},
      // PRRTE's prun, of Open MPI 5.
      {"Open MPI's mpirun",
       {{"OMPI_COMM_WORLD_SIZE", "3"},
        {"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
        {"PMIX_RANK", "2"}}},
      // HPE's mpiexec (PALS) in a job of PBS.
      {"mpiexec", {{"PMI_SIZE", "3"}, {"PMI_RANK", "2"}, {"PALS_RANKID", "2"}, {"PBS_JOBID", "42.head"}}}};
  for (const auto& [name, environment] : launchers) {
    const DetectedScheduler detected = found(environment, endpoint);
    EXPECT_EQ(detected.name, name);
    EXPECT_EQ(values(detected), (std::map<std::string, std::string>{{"nnodes", "3"}, {"node-rank", "2"}}))
        << name;
    EXPECT_NE(refused(environment).find("name the first host with --rdzv-endpoint=HOST:PORT"),
              std::string::npos)
        << name;
  }
  EXPECT_EQ(found(with(slurm, launchers[1].second), endpoint).name, "MVAPICH's mpirun_rsh")
      << "in a job of Slurm, too";
}

TEST(Mpi, HydrasRunsOnOneHostDoNotMeet) {
  const EnvironmentMap hydra{{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}};
  const auto by = [&](const std::string& run) { return values(found(hydra, {}, "a", "", "", run)); };
  EXPECT_EQ(by("77.1").at("rdzv-id"), "mpi-77.1");
  EXPECT_EQ(by("77.1").at("master-addr"), "127.0.0.1");
  EXPECT_EQ(by("77.1"), by("77.1"));
  EXPECT_NE(by("77.1").at("master-port"), by("78.1").at("master-port"));
  EXPECT_FALSE(by("").contains("master-port")) << "nothing names the run";
  const Settings endpoint = given({{"rdzv-endpoint", "h:1"}});
  EXPECT_FALSE(values(found(with(hydra, {{"MPI_LOCALNRANKS", "1"}}), endpoint, "a", "", "", "77.1"))
                   .contains("rdzv-id"))
      << "each host has a proxy of its own";
}

}  // namespace
}  // namespace dlaunch::launcher
