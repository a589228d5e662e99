// What is taken from a Slurm step, and what is refused.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

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

// As on a site whose nodes' names are known to Slurm alone.
SchedulerEnvironment without_names(const EnvironmentMap& environment, const Result<std::string>& printed,
                                   std::vector<std::string>* asked = nullptr) {
  SchedulerEnvironment out{environment, "a", ""};
  out.can_look_up = [](const std::string&) { return false; };
  out.show_slurm_node = [printed, asked](const std::string& node) {
    if (asked) asked->push_back(node);
    return printed;
  };
  return out;
}

TEST(Slurm, ANameThatOnlySlurmKnowsIsReplacedByItsAddress) {
  std::vector<std::string> asked;
  const auto detected =
      detect_scheduler(without_names(slurm, std::string("NodeName=c03 NodeAddr=10.1.2.3"), &asked), {});
  ASSERT_TRUE(detected.ok());
  EXPECT_EQ(values(*detected).at("master-addr"), "10.1.2.3");
  EXPECT_EQ(detected->settings.at("master-addr").from, "NodeAddr of c03 in Slurm");
  EXPECT_NE(detected->notice.find("master 10.1.2.3,"), std::string::npos) << detected->notice;
  EXPECT_TRUE(detected->warnings.empty());
  EXPECT_EQ(asked, Words{"c03"});
}

TEST(Slurm, ItsControllerIsAskedOnlyIfTheAddressIsNeeded) {
  std::vector<std::string> asked;
  SchedulerEnvironment outside = without_names(slurm, std::string("NodeName=c03 NodeAddr=10.1.2.3"), &asked);
  for (const Settings& settings : {given({{"rdzv-endpoint", "h:1"}}), given({{"master-addr", "h"}}),
                                   given({{"nnodes", "1"}}), given({{"standalone", "true"}})})
    EXPECT_TRUE(detect_scheduler(outside, settings).ok());
  outside.can_look_up = [](const std::string& name) { return name == "c03"; };
  EXPECT_EQ(values(*detect_scheduler(outside, {})).at("master-addr"), "c03");
  EXPECT_TRUE(asked.empty());
  // Open MPI's variables do not name hosts of Slurm.
  outside = without_names(
      {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}},
      std::string(""), &asked);
  EXPECT_TRUE(detect_scheduler(outside, {}).ok());
  EXPECT_TRUE(asked.empty());
}

TEST(Slurm, WithoutAnAddressTheNameStaysAndTheReasonIsNamed) {
  const auto warned = [](const Result<std::string>& printed) {
    const auto detected = detect_scheduler(without_names(slurm, printed), {});
    EXPECT_TRUE(detected.ok());
    EXPECT_EQ(values(*detected).at("master-addr"), "c03");
    EXPECT_EQ(detected->warnings.size(), 1U);
    return detected->warnings.empty() ? "" : detected->warnings.front();
  };
  EXPECT_EQ(
      warned(Error{ErrorKind::io, "cannot run scontrol", "", "No such file or directory", ""}),
      "the first node, c03 (SLURM_STEP_NODELIST), has no address here: DNS and /etc/hosts do not know it, "
      "and Slurm gives none (cannot run scontrol: No such file or directory); name the first host with "
      "--rdzv-endpoint=HOST:PORT");
  EXPECT_NE(warned(std::string("NodeName=c03 NodeAddr=c03")).find("(its NodeAddr is the same name)"),
            std::string::npos);
}

TEST(Slurm, AHostileListIsAnError) {
  EXPECT_EQ(refused(with(slurm, {{"SLURM_STEP_NODELIST", "c[0-999999999]"}})),
            "the list of hosts 'c[0-999999999]' in SLURM_STEP_NODELIST: it has more than 65536 names; name "
            "the first "
            "host with --rdzv-endpoint=HOST:PORT");
}

}  // namespace
}  // namespace dlaunch::launcher
