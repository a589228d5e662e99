// What is taken from Slurm, PBS, mpirun and Kubernetes, and what is refused.

#include "launcher/scheduler/scheduler.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

Settings given(std::map<std::string, std::string> flags) {
  Settings out;
  for (auto& [flag, value] : flags) out[flag] = {value, Origin::command_line, "--" + flag};
  return out;
}

DetectedScheduler found(const EnvironmentMap& environment, const Settings& settings = {},
                        const std::string& host = "a", const std::string& hosts_file = "",
                        const std::string& pbs_nodes = "", const std::string& mpi_run = "") {
  auto detected = detect_scheduler({environment, host, hosts_file, pbs_nodes, mpi_run}, settings);
  EXPECT_TRUE(detected.ok()) << (detected.ok() ? "" : detected.error().message());
  return detected.ok() ? *detected : DetectedScheduler{};
}
std::string refused(const EnvironmentMap& environment, const Settings& settings = {},
                    const std::string& pbs_nodes = "") {
  auto detected = detect_scheduler({environment, "a", "", pbs_nodes}, settings);
  EXPECT_FALSE(detected.ok());
  return detected.ok() ? "" : detected.error().message();
}
std::map<std::string, std::string> values(const DetectedScheduler& detected) {
  std::map<std::string, std::string> out;
  for (const auto& [flag, setting] : detected.settings) out[flag] = setting.value;
  return out;
}
EnvironmentMap with(EnvironmentMap map, const EnvironmentMap& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}

const EnvironmentMap slurm{{"SLURM_JOB_ID", "42"},
                           {"SLURM_JOB_NUM_NODES", "4"},
                           {"SLURM_NNODES", "4"},
                           {"SLURM_JOB_NODELIST", "c[01-04]"},
                           {"SLURM_STEP_ID", "3"},
                           {"SLURM_STEP_NUM_NODES", "2"},
                           {"SLURM_STEP_NODELIST", "c[03,04]"},
                           {"SLURM_STEP_NUM_TASKS", "2"},
                           {"SLURM_NODEID", "1"},
                           {"SLURM_LOCALID", "0"}};

TEST(Slurm, AStepGivesNodesRankEndpointAndId) {
  const DetectedScheduler detected = found(slurm);
  const auto got = values(detected);
  const std::string port = got.at("master-port");
  EXPECT_EQ(got, (std::map<std::string, std::string>{{"nnodes", "2"},
                                                     {"node-rank", "1"},
                                                     {"master-addr", "c03"},
                                                     {"master-port", port},
                                                     {"rdzv-id", "slurm-42.3"}}));
  EXPECT_GE(std::stoi(port), 20'000);
  EXPECT_LT(std::stoi(port), 32'000);
  EXPECT_EQ(detected.notice,
            "Slurm step 42.3: nodes 2, node rank 1, master c03, port " + port + ", id slurm-42.3");
  EXPECT_TRUE(detected.warnings.empty());
  // Every node of the step finds the same port; another step or job another one.
  EXPECT_EQ(values(found(with(slurm, {{"SLURM_NODEID", "0"}}))).at("master-port"), port);
  EXPECT_NE(values(found(with(slurm, {{"SLURM_STEP_ID", "4"}}))).at("master-port"), port);
  EXPECT_NE(values(found(with(slurm, {{"SLURM_JOB_ID", "43"}}))).at("master-port"), port);
}

TEST(Slurm, OnlyOpenSettingsAreTaken) {
  const auto got =
      values(found(slurm, given({{"node-rank", "0"}, {"rdzv-endpoint", "h:1"}, {"rdzv-id", "mine"}})));
  EXPECT_EQ(got, (std::map<std::string, std::string>{{"nnodes", "2"}}));
  EXPECT_EQ(values(found(slurm, given({{"nnodes", "2"}}))).at("node-rank"), "1");
  EXPECT_EQ(values(found(slurm, given({{"nnodes", "1:2"}}))).at("node-rank"), "1");
  // Another number of nodes is another job than Slurm's.
  EXPECT_TRUE(values(found(slurm, given({{"nnodes", "1"}}))).empty());
  EXPECT_TRUE(values(found(slurm, given({{"standalone", "true"}}))).empty());
  EXPECT_TRUE(values(found(slurm, given({{"scheduler", "none"}}))).empty());
  EXPECT_TRUE(values(found(with(slurm, {{"TORCHELASTIC_RUN_ID", "x"}}))).empty())
      << "a worker that starts dlaunch";
}

TEST(Slurm, SparesAreNodesOfTheStepToo) {
  const auto got = values(found(slurm, given({{"nnodes", "1"}, {"spares", "1"}})));
  EXPECT_EQ(got.at("master-addr"), "c03");
  EXPECT_FALSE(got.contains("node-rank")) << "who waits has none";
}

TEST(Slurm, AnotherNumberOfNodesIsNamed) {
  const DetectedScheduler detected = found(slurm, given({{"nnodes", "1:4"}}));
  EXPECT_TRUE(detected.settings.empty());
  ASSERT_EQ(detected.warnings.size(), 1U);
  EXPECT_NE(detected.warnings[0].find("has 2 nodes, but 4 were requested"), std::string::npos)
      << detected.warnings[0];
  EXPECT_TRUE(found(slurm, given({{"nnodes", "1"}})).warnings.empty()) << "one that is meant to be alone";
}

TEST(Slurm, OneNodeNeedsNoEndpoint) {
  const auto got = values(found({{"SLURM_JOB_ID", "42"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_NODEID", "0"},
                                 {"SLURM_STEP_NUM_NODES", "1"}}));
  EXPECT_EQ(got, (std::map<std::string, std::string>{
                     {"nnodes", "1"}, {"node-rank", "0"}, {"rdzv-id", "slurm-42.0"}}));
}

TEST(Slurm, ANodeIdThatIsNoNumberIsRefused) {
  EXPECT_EQ(refused(with(slurm, {{"SLURM_NODEID", "xx"}})),
            "SLURM_NODEID=xx: it is not a node number; give --node-rank, from 0 to 1");
}

TEST(Slurm, UnusedNodeIdNeedNotBeANumber) {
  const auto no_number = with(slurm, {{"SLURM_NODEID", "xx"}});
  EXPECT_EQ(values(found(no_number, given({{"node-rank", "1"}}))).at("master-addr"), "c03");
  const auto alone = with(no_number, {{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}});
  EXPECT_FALSE(values(found(alone)).contains("node-rank"));
  EXPECT_EQ(values(found(alone)).at("nnodes"), "1");
}

TEST(Slurm, AJobOfSeveralNodesOutsideAStepIsRefused) {
  const EnvironmentMap batch{{"SLURM_JOB_ID", "42"}, {"SLURM_JOB_NUM_NODES", "4"}, {"SLURM_NODEID", "0"}};
  EXPECT_EQ(refused(batch),
            "Slurm job 42 has 4 nodes, but dlaunch was started on one of them only; start it with srun "
            "--ntasks-per-node=1 dlaunch ..., or give --nnodes=1 to use only this node");
  EXPECT_TRUE(values(found(batch, given({{"nnodes", "1"}}))).empty());
  EXPECT_TRUE(values(found(with(batch, {{"SLURM_JOB_NUM_NODES", "1"}}))).empty());
}

TEST(Slurm, SeveralTasksOnANodeAreNamed) {
  const EnvironmentMap eight = with(slurm, {{"SLURM_STEP_NUM_TASKS", "16"}});
  ASSERT_EQ(found(eight).warnings.size(), 1U);
  EXPECT_EQ(found(eight).warnings.front(),
            "Slurm step 42.3 has 16 tasks on 2 nodes: only the first on each node starts workers; use srun "
            "--ntasks-per-node=1, and --nproc-per-node for the workers");
  EXPECT_EQ(refused(with(eight, {{"SLURM_LOCALID", "1"}})),
            "Slurm step 42.3 started several dlaunch on this node; dlaunch starts the workers itself: "
            "use srun "
            "--ntasks-per-node=1, and --nproc-per-node");
}

TEST(Slurm, AHostileListIsAnError) {
  EXPECT_EQ(refused(with(slurm, {{"SLURM_STEP_NODELIST", "c[0-999999999]"}})),
            "the list of hosts 'c[0-999999999]' in SLURM_STEP_NODELIST: it has more than 65536 names; name "
            "the first "
            "host with --rdzv-endpoint=HOST:PORT");
}

const EnvironmentMap pbs_task{{"PBS_JOBID", "42.head"},
                              {"PBS_NODEFILE", "/var/spool/pbs/aux/42.head"},
                              {"PBS_TASKNUM", "20000001"},
                              {"PBS_NODENUM", "1"}};
constexpr const char* pbs_file = "n1.example\nn1.example\nn2.example\nn2.example\nn3.example\n";

TEST(Pbs, ATaskFindsItselfAmongTheJobsNodes) {
  const DetectedScheduler detected = found(pbs_task, {}, "n3", "", pbs_file);
  const auto got = values(detected);
  const std::string port = got.at("master-port");
  EXPECT_EQ(got, (std::map<std::string, std::string>{{"nnodes", "3"},
                                                     {"node-rank", "2"},
                                                     {"master-addr", "n1.example"},
                                                     {"master-port", port},
                                                     {"rdzv-id", "pbs-42.head"}}));
  EXPECT_EQ(detected.notice,
            "PBS job 42.head: nodes 3, node rank 2, master n1.example, port " + port + ", id pbs-42.head");
  // The first host's task as well, though the job's script runs there; and a host that is not the first runs
  // no script.
  const auto first = values(found(pbs_task, {}, "n1.example", "", pbs_file));
  EXPECT_EQ(first.at("node-rank"), "0");
  EXPECT_EQ(first.at("master-port"), port);
  EXPECT_EQ(values(found({{"PBS_JOBID", "42.head"}}, {}, "n2.example", "", pbs_file)).at("node-rank"), "1");
  // Known by another name there.
  EXPECT_EQ(values(found(pbs_task, {}, "login7", "", pbs_file)).at("node-rank"), "1");
}

TEST(Pbs, TheScriptAloneIsRefused) {
  const EnvironmentMap script{{"PBS_JOBID", "42.head"}, {"PBS_TASKNUM", "00000001"}};
  EXPECT_EQ(refused(script, {}, "a\nb\n"),
            "PBS job 42.head has 2 nodes, but dlaunch was started on one of them only; start it with pbsdsh "
            "-u dlaunch ..., or with --hostfile=$PBS_NODEFILE, or give --nnodes=1 to use only this node");
  EXPECT_EQ(refused(with(script, {{"PBS_NUM_NODES", "2"}})), refused(script, {}, "a\nb\n"));
  EXPECT_TRUE(values(found(script, given({{"nnodes", "1"}}), "a", "", "a\nb\n")).empty());
  EXPECT_TRUE(values(found(script, given({{"hostfile", "f"}}), "a", "", "a\nb\n")).empty());
  EXPECT_TRUE(values(found(script, {}, "a", "", "a\na\n")).empty()) << "one node";
}

TEST(Pbs, ATaskForEachSlotIsRefused) {
  EXPECT_EQ(refused(with(pbs_task, {{"PBS_VNODENUM", "1"}}), {}, "a\na\nb\n"),
            "PBS job 42.head started several dlaunch on this node; dlaunch starts the workers itself: "
            "use pbsdsh -u, and --nproc-per-node");
  EXPECT_EQ(values(found(with(pbs_task, {{"PBS_VNODENUM", "2"}}), {}, "b", "", "a\na\nb\n")).at("nnodes"),
            "2");
}

TEST(Pbs, WithoutTheNodeFileMoreOptionsAreRequired) {
  EXPECT_EQ(refused(pbs_task),
            "PBS job 42.head does not say how many nodes it has: PBS_NODEFILE cannot be read on this host; "
            "give --nnodes, and name the first host with --rdzv-endpoint=HOST:PORT");
  EXPECT_EQ(refused(pbs_task, given({{"nnodes", "2"}})),
            "PBS job 42.head does not say which nodes it has: PBS_NODEFILE cannot be read on this host; "
            "name the first host with --rdzv-endpoint=HOST:PORT");
  EXPECT_EQ(values(found(pbs_task, given({{"nnodes", "2"}, {"rdzv-endpoint", "n1:1"}}))),
            (std::map<std::string, std::string>{{"node-rank", "1"}, {"rdzv-id", "pbs-42.head"}}));
  EXPECT_EQ(
      values(found(with(pbs_task, {{"PBS_NUM_NODES", "4"}}), given({{"master-addr", "n1"}}))).at("nnodes"),
      "4");
}

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

const EnvironmentMap pod{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                         {"WORLD_SIZE", "3"},
                         {"RANK", "2"},
                         {"MASTER_ADDR", "job-master-0"},
                         {"MASTER_PORT", "23456"}};

TEST(Kubernetes, APyTorchJobGivesAll) {
  EXPECT_EQ(found(pod).notice,
            "Kubernetes PyTorchJob: nodes 3, node rank 2, master job-master-0, port 23456");
  const EnvironmentMap master = with(pod, {{"RANK", "0"}, {"MASTER_ADDR", "localhost"}});
  EXPECT_EQ(values(found(master, {}, "job-master-0")).at("master-addr"), "job-master-0");
  EXPECT_EQ(found(with(pod, {{"PET_NNODES", "3"}})).name, "") << "a newer operator sets flags";
  EnvironmentMap elsewhere = pod;
  elsewhere.erase("KUBERNETES_SERVICE_HOST");
  EXPECT_EQ(found(elsewhere).name, "") << "these names alone mean nothing";
}

TEST(Kubernetes, AnIndexedJobKnowsItsRankButNotTheirNumber) {
  const EnvironmentMap index{{"JOB_COMPLETION_INDEX", "3"}};
  const std::string hosts =
      "127.0.0.1 localhost\n# 10.1.2.3 train-3.no\n10.1.2.3\ttrain-3.workers.ns.svc.cluster.local\ttrain-3\n";
  const Settings four = given({{"nnodes", "4"}});
  EXPECT_EQ(values(found(index, four, "train-3", hosts)),
            (std::map<std::string, std::string>{{"node-rank", "3"},
                                                {"master-addr", "train-0.workers.ns.svc.cluster.local"}}));
  EXPECT_EQ(found(index).name, "") << "each pod a job of its own";
  EXPECT_NE(
      refused(index, four).find("cannot resolve each other's names (a); give the Job's pods a subdomain"),
      std::string::npos);
  EXPECT_EQ(values(found(index, given({{"nnodes", "4"}, {"master-addr", "h"}}))),
            (std::map<std::string, std::string>{{"node-rank", "3"}}));
}

TEST(Options, SettingsFromTheSchedulerAreReported) {
  const Options options = good({"x"}, slurm);
  EXPECT_EQ(options.job.nnodes, 2);
  EXPECT_EQ(options.node_rank, 1);
  EXPECT_EQ(options.notices.size(), 1U);
  EXPECT_EQ(bad({"--max-restarts=x", "x"}, {{"SLURM_JOB_ID", "1"}, {"SLURM_NNODES", "2"}}),
            "--max-restarts: 'x' is not a number; see dlaunch --help")
      << "one's own mistake first";
}

}  // namespace
}  // namespace dlaunch::launcher
