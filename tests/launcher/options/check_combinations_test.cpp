#include "launcher/options/check_combinations.h"

#include "tests/launcher/flags/parsed_options.h"

namespace dlaunch::launcher {
namespace {

TEST(Options, AMinorityThatMayNotGoOnIsSaid) {
  EXPECT_TRUE(good({"--nnodes=3:5", "--rdzv-endpoint=a,b", "x"}).warnings.empty());
  EXPECT_EQ(
      good({"--nnodes=2:5", "--rdzv-endpoint=a,b", "x"}).warnings,
      Words{"the job runs only while 3 of 5 nodes are there, even if --nnodes allows fewer: with several "
            "endpoints, only a majority knows that no other part of the job is running"});
  EXPECT_TRUE(good({"--nnodes=2:5", "--rdzv-endpoint=a", "x"}).warnings.empty());
}

TEST(CheckCombinations, AnEndpointTakesPrecedenceOverAnAddress) {
  EXPECT_EQ(good({"--rdzv-endpoint=a:1", "--master-addr=b", "x"}).warnings,
            Words{"--rdzv-endpoint=a:1 takes precedence over --master-addr=b"});
  EXPECT_TRUE(good({"--rdzv-endpoint=a:1", "--master-addr=a", "x"}).warnings.empty());
}

TEST(CheckCombinations, ANodeRankIsBelowTheNumberOfNodes) {
  EXPECT_EQ(good({"--nnodes=1:4", "--node-rank=3", "x"}).node_rank, 3);
  EXPECT_EQ(bad({"--nnodes=1:4", "--node-rank=4", "x"}),
            "--node-rank=4 is outside --nnodes=4; node ranks go from 0 to 3");
}

TEST(CheckCombinations, OnlyAJobOfOneNodeMayLeaveItsPortOpen) {
  EXPECT_EQ(good({"--master-port=0", "x"}).master_port, 0);
  EXPECT_EQ(bad({"--spares=1", "--master-port=0", "x"}),
            "--master-port=0: a job of several nodes needs a fixed port; name one");
  EXPECT_EQ(good({"--nnodes=2", "--rdzv-endpoint=h:7", "--master-port=0", "x"}).endpoints.front().port, 7)
      << "the endpoint's port counts";
  EXPECT_EQ(bad({"--nnodes=3", "--rdzv-endpoint=a:7,b:0", "x"}),
            "--rdzv-endpoint=a:7,b:0: a job of several nodes needs a fixed port; name one");
}

TEST(CheckCombinations, NamedHostsGetTheirRanksAndNames) {
  EXPECT_EQ(bad({"--hosts=a", "--hostfile=f", "x"}),
            "--hosts=a and --hostfile=f exclude each other; give one of them");
  for (const char* other : {"--node-rank=0", "--local-addr=a", "--standalone"})
    EXPECT_TRUE(bad({"--hostfile=f", other, "x"}).starts_with(std::string("--hostfile=f and ") + other))
        << other;
  EXPECT_EQ(good({"--hosts=a", "--lifeline=k", "--node-rank=0", "x"}).node_rank, 0)
      << "as the agents on those hosts get it";
}

TEST(CheckCombinations, SwitchesThatAreOffExcludeNothing) {
  EXPECT_TRUE(good({"--module", "x"}, {{"DLAUNCH_NO_PYTHON", "0"}}).module);
  EXPECT_EQ(good({"--bind=none", "--numa-binding=node", "x"}).bind, Bind::node);
}

}  // namespace
}  // namespace dlaunch::launcher
