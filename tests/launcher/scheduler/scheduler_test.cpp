// Which settings of a scheduler are taken, whichever scheduler it is.

#include "launcher/scheduler/scheduler.h"

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

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

TEST(Slurm, WithSparesTheFirstNodeIsTheEndpoint) {
  const std::map<std::string, std::string> spare{{"nnodes", "1"}, {"spares", "1"}};
  const EnvironmentMap first = with(slurm, {{"SLURM_NODEID", "0"}});
  EXPECT_EQ(values(found(first, given(spare))).at("rdzv-conf"), "is_host=true");
  EXPECT_EQ(values(found(slurm, given(spare))).at("rdzv-conf"), "is_host=false");
  EXPECT_FALSE(values(found(first)).contains("rdzv-conf")) << "a node with a node rank of 0 is it";
  for (const auto& [flag, value] :
       EnvironmentMap{{"rdzv-endpoint", "h:1"}, {"master-addr", "h"}, {"rdzv-conf", "join_timeout=60"}}) {
    auto more = spare;
    more[flag] = value;
    EXPECT_FALSE(values(found(first, given(more))).contains("rdzv-conf")) << flag;
  }
}

TEST(Slurm, AnotherNumberOfNodesIsNamed) {
  const DetectedScheduler detected = found(slurm, given({{"nnodes", "1:4"}}));
  EXPECT_TRUE(detected.settings.empty());
  ASSERT_EQ(detected.warnings.size(), 1U);
  EXPECT_NE(detected.warnings[0].find("has 2 nodes, but 4 were requested"), std::string::npos)
      << detected.warnings[0];
  EXPECT_TRUE(found(slurm, given({{"nnodes", "1"}})).warnings.empty()) << "one that is meant to be alone";
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
