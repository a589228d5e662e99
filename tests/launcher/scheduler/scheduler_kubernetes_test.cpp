// What is taken from a PyTorchJob and an Indexed Job.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

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

}  // namespace
}  // namespace dlaunch::launcher
