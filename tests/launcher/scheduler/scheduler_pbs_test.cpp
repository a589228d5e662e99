// What is taken from a PBS job's tasks, and what is refused.

#include "tests/launcher/scheduler/detected.h"

namespace dlaunch::launcher {
namespace {

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

}  // namespace
}  // namespace dlaunch::launcher
