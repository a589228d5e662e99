#include "agent/model/remedy.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

TEST(Remedy, MissingNodesAreStartedWithTheirRanks) {
  const Address endpoint{"10.0.0.1", 29500};
  EXPECT_EQ(remedy_of_missing_nodes(endpoint, {1}),
            "start this command on the missing node, with --node-rank=1; if it runs there already, there: "
            "dlaunch doctor --peer=10.0.0.1:29500");
  EXPECT_TRUE(
      remedy_of_missing_nodes(endpoint, {1, 3})
          .starts_with("start this command on the missing nodes, with the --node-rank of each: 1, 3; "));
  EXPECT_TRUE(remedy_of_missing_nodes(endpoint, {}).starts_with("start this command on more nodes; "));
}

TEST(Remedy, AnEndpointThatDoesNotAnswerIsProbed) {
  EXPECT_TRUE(remedy_of_silent_endpoint({"a", 29500}).ends_with("dlaunch doctor --peer=a:29500"));
}

TEST(Remedy, APauseIsComparedWithTheTimeout) {
  EXPECT_TRUE(remedy_of_pause("b", std::chrono::seconds(5)).ends_with("raise --node-timeout (it is 5 s)"));
}

TEST(Remedy, AHangIsLookedAtWhileItLasts) {
  JobSpec job;
  job.id = "j";
  Failure failure;
  EXPECT_EQ(remedy_of_hang(job, failure, false), "") << "nobody knows which rank";
  failure.rank = 2;
  failure.host = "b";
  EXPECT_EQ(
      remedy_of_hang(job, failure, false),
      "without --hang-timeout, run 'dlaunch dump j' on host b while it hangs: it shows the stacks of rank 2");
  EXPECT_EQ(remedy_of_hang(job, failure, true), "find what stopped rank 2 on host b: SIGSTOP, or a debugger");
  EXPECT_EQ(remedy_of_stopped_rank(failure), "") << "its process is not known";
  failure.pid = 47;
  EXPECT_EQ(remedy_of_stopped_rank(failure), "kill -CONT 47 on host b, if no debugger holds it");
}

TEST(Remedy, AKernelThatDoesNotEndIsLookedFor) {
  Failure failure;
  EXPECT_EQ(remedy_of_late_device(failure, true), "") << "nobody knows which rank";
  failure.rank = 2;
  failure.host = "b";
  const std::string anyhow =
      "look for a kernel of rank 2 that does not end: start the job with CUDA_LAUNCH_BLOCKING=1, so that its "
      "stack shows the kernel, or run cuda-gdb and py-spy on host b while it hangs";
  EXPECT_EQ(remedy_of_late_device(failure, true), anyhow) << "its process is not known";
  failure.pid = 47;
  EXPECT_EQ(remedy_of_late_device(failure, false), anyhow + ", without --hang-timeout");
  EXPECT_EQ(
      remedy_of_late_device(failure, true),
      "cuda-gdb -p 47 and py-spy dump --pid 47 on host b; or start the job with CUDA_LAUNCH_BLOCKING=1, "
      "so that the rank's stack shows the kernel");
}

TEST(Remedy, WithGpusThatCommunicateForEverTheNetworkIsChecked) {
  const std::string first = "start the job with NCCL_DEBUG=INFO to see what NCCL does";
  EXPECT_EQ(remedy_of_stuck_devices({}), first);
  EXPECT_EQ(remedy_of_stuck_devices({"a"}), first + "; dlaunch doctor on host a checks the GPUs' links");
  EXPECT_EQ(remedy_of_stuck_devices({"a", "b"}), first + "; dlaunch doctor --peer=a,b checks the network");
  EXPECT_EQ(remedy_of_stuck_devices(std::vector<std::string>(9, "a")),
            first + "; dlaunch doctor --peer=HOST,HOST checks the network");
}

TEST(Remedy, TextOfTheUserIsMadeSafe) {
  const std::string text = remedy_of_health_check("\x1b[2J" + std::string(1000, 'x'), "b");
  EXPECT_TRUE(text.starts_with("run the health check by hand on host b: "));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 300U);
}

}  // namespace
}  // namespace dlaunch::agent
