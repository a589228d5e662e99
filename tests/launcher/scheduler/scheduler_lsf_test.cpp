// What is taken from an LSF job, and what is refused.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

const EnvironmentMap lsf{{"LSB_JOBID", "42"},
                         {"LSB_JOBINDEX", "0"},
                         {"LSB_HOSTS", "n1 n1 n2 n2 n3"},
                         {"LSB_MCPU_HOSTS", "n1 2 n2 2 n3 1"}};

std::map<std::string, std::string> taken(const EnvironmentMap& environment, const std::string& host) {
  return values(found(environment, given({{"nnodes", "3"}}), host));
}

TEST(Lsf, ATaskFindsItselfAmongTheJobsHosts) {
  const DetectedScheduler detected = found(lsf, given({{"nnodes", "3"}}), "n2.example");
  const auto got = values(detected);
  const std::string port = got.at("master-port");
  EXPECT_EQ(got,
            (std::map<std::string, std::string>{
                {"node-rank", "1"}, {"master-addr", "n1"}, {"master-port", port}, {"rdzv-id", "lsf-42"}}));
  EXPECT_EQ(detected.notice, "LSF job 42: node rank 1, master n1, port " + port + ", id lsf-42");
  EXPECT_EQ(detected.settings.at("master-addr").from, "LSB_MCPU_HOSTS");
  EXPECT_EQ(taken(lsf, "n1").at("node-rank"), "0");
  EXPECT_EQ(taken(lsf, "n3").at("master-port"), port);
}

TEST(Lsf, AHostOfAnotherNameHasNoNodeRank) { EXPECT_FALSE(taken(lsf, "login7").contains("node-rank")); }

TEST(Lsf, WithoutCountsTheListOfSlotsServes) {
  EnvironmentMap slots = lsf;
  slots.erase("LSB_MCPU_HOSTS");
  EXPECT_EQ(taken(slots, "n3"), taken(lsf, "n3"));
}

TEST(Lsf, AMalformedListIsIgnored) {
  EXPECT_TRUE(taken(with(lsf, {{"LSB_MCPU_HOSTS", "n1 2 n2"}}), "n1").empty());
}

TEST(Lsf, TheElementsOfAnArrayAreJobsOfTheirOwn) {
  const auto third = taken(with(lsf, {{"LSB_JOBINDEX", "3"}}), "n1");
  EXPECT_EQ(third.at("rdzv-id"), "lsf-42.3");
  EXPECT_NE(third.at("master-port"), taken(lsf, "n1").at("master-port"));
}

TEST(Lsf, OneNodeOfSeveralIsRefused) {
  EXPECT_EQ(
      refused(lsf),
      "LSF job 42 has 3 nodes, but dlaunch was started on one of them only; start it with blaunch on each "
      "host and --nnodes=3, or with --hostfile=$LSB_DJOB_HOSTFILE, or give --nnodes=1 to use only this node");
  EXPECT_TRUE(values(found(lsf, given({{"nnodes", "1"}}))).empty());
  EXPECT_TRUE(values(found(lsf, given({{"hostfile", "f"}}))).empty());
}

TEST(Lsf, AJobOnOneHostIsNotMentioned) {
  EXPECT_TRUE(found(with(lsf, {{"LSB_MCPU_HOSTS", "n1 8"}})).name.empty());
  EXPECT_TRUE(found({{"LSB_JOBID", "42"}}).name.empty());
}

TEST(Lsf, AnMpirunWithinDecides) {
  const EnvironmentMap inner = with(lsf, {{"OMPI_COMM_WORLD_SIZE", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}});
  EXPECT_EQ(found(inner).name, "Open MPI's mpirun");
}

}  // namespace
}  // namespace dlaunch::launcher
