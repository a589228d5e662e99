// MPI_Abort of a worker, as the WorkerGroup handles it.
#include <gtest/gtest.h>

#include <csignal>

#include "agent/control/worker_group.h"
#include "agent/model/root_cause.h"

namespace dlaunch::agent {
namespace {

// A node with the ranks 2 and 3.
class WorkerAbortTest : public ::testing::Test {
 protected:
  WorkerAbortTest() {
    World world;
    world.world_size = 4;
    world.nodes = 2;
    world.members = {{1, 2, 2, "b", 42, 1}};
    step(StartWorkers{world});
    for (int i = 0; i < 2; ++i) step(WorkerStarted{i, 100 + i});
  }
  static NodeSpec node() {
    NodeSpec node{1, 2, "b", "default", {"./train"}};
    node.agent = 42;
    return node;
  }
  void step(const GroupEvent& event) { last_ = group_.step(now_, event); }
  void killed(int local_rank) {
    WorkerExit exit;
    exit.status = {ExitStatus::How::signaled, SIGTERM, false};
    step(WorkerExited{local_rank, 100 + local_rank, exit});
  }
  template <class A>
  const A* got() const {
    for (const auto& action : last_) {
      if (const auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }

  TimePoint now_{std::chrono::seconds(1000)};
  WorkerGroup group_{node(), {std::chrono::seconds(30)}};
  GroupActions last_;
};

TEST_F(WorkerAbortTest, IsAFailureAtOnce) {
  step(WorkerAborted{1, 7});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_EQ(
      describe(got<RoundFailed>()->failure),
      "rank 3 (local rank 1, node 1, host b, pid 101) exited with code 7: it called MPI_Abort with code 7");
  ASSERT_TRUE(got<SignalAll>());
  EXPECT_EQ(got<SignalAll>()->signo, SIGTERM) << "also to the one that aborted, which waits for it";
  step(WorkerAborted{0, 8});
  EXPECT_FALSE(got<RoundFailed>()) << "the first counts";
  killed(1);
  EXPECT_FALSE(got<RoundFailed>()) << "reported already";
}

TEST_F(WorkerAbortTest, IsAFailureWithoutACodeToo) {
  step(WorkerAborted{0, 0});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_EQ(got<RoundFailed>()->failure.status.number, 1);
  killed(0);
  killed(1);
  step(AllGone{});
  ASSERT_TRUE(got<RoundStopped>());
  EXPECT_FALSE(got<RoundStopped>()->all_returned_0);
}

TEST_F(WorkerAbortTest, OfMpiItselfIsTheEffectOfAnotherEnd) {
  step(WorkerAborted{0, 741'985'807});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_TRUE(got<RoundFailed>()->failure.blames_peer);
  EXPECT_FALSE(got<SignalAll>()) << "the one that it noticed has time to be reported";
  now_ += blamed_rank_grace;
  step(StopDeadline{});
  EXPECT_TRUE(got<SignalAll>());
}

TEST_F(WorkerAbortTest, IsNoNewsWhileTheRoundStops) {
  step(StopWorkers{SIGTERM});
  step(WorkerAborted{0, 7});
  EXPECT_TRUE(last_.empty());
}

}  // namespace
}  // namespace dlaunch::agent
