// How a node loses its leader and its keeper, and how it ends.

#include "agent/control/member.h"

#include <gtest/gtest.h>

#include "tests/agent/control/member_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST_F(MemberTest, EndsWithTheJobsOutcomeAfterItsWorkersHaveGone) {
  work();
  Outcome outcome;
  outcome.exit_code = 3;
  outcome.failed = true;
  hear(End{outcome});
  EXPECT_TRUE(told_group<StopWorkers>());
  EXPECT_FALSE(got<MemberEnded>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.exit_code, 3);
}

// A node that has lost the leader while its workers run, and has found the next one.
class FenceTest : public MemberTest {
 protected:
  void find_another_leader(bool which_went_on) {
    JobSpec moving = job();
    moving.endpoints = {{"m", 1}, {"n", 1}};
    moving.node_timeout = seconds(5);
    member_ = Member(moving, node(), "0.1", now_);
    work();
    step(LinkDown{{LossKind::broken, "connection reset by peer"}});
    EXPECT_TRUE(told_group<StopWorkers>());
    step(LinkUp{});
    hear(Welcome{true, which_went_on, 1});
  }
  bool kills_after_the_node_timeout() {
    now_ += seconds(5);
    hear(Heartbeat{2});
    step(MemberTimer{});
    return told_group<KillNow>() != nullptr;
  }
};

TEST_F(FenceTest, AllowsTheStopTimeoutOfAwaitedNodes) {
  find_another_leader(false);
  EXPECT_FALSE(kills_after_the_node_timeout());
}

TEST_F(FenceTest, IsNotExtendedForOtherNodes) {
  find_another_leader(true);
  EXPECT_TRUE(kills_after_the_node_timeout());
}

TEST_F(FenceTest, IsNotForTheWorkersOfTheNextWorld) {
  find_another_leader(true);
  step(RoundStopped{0});
  hear(world(2));
  EXPECT_TRUE(told_group<StartWorkers>());
  EXPECT_FALSE(kills_after_the_node_timeout());
}

TEST_F(MemberTest, LosingTheCoordinatorStopsTheWorkers) {
  work();
  step(LinkDown{{LossKind::broken, "connection closed"}});
  EXPECT_TRUE(told_group<StopWorkers>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(describe(got<MemberEnded>()->outcome.cause), "node 0 (host m) was lost: connection closed");
}

TEST_F(MemberTest, TheKeepersDeathEndsTheNode) {
  work();
  step(KeeperLost{"the keeper process (pid 5) was killed"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_TRUE(said<Leave>());
}

TEST_F(MemberTest, SuspendedNodeBlamesNoOther) {
  JobSpec spec = job();
  spec.node_timeout = seconds(5);
  member_ = Member(spec, node(), "0.1", now_);
  work();
  now_ += seconds(6);  // the timer was to come long before
  step(LinkDown{{LossKind::closed, "closed by the peer"}});
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  const std::string said = describe(got<MemberEnded>()->outcome.cause);
  EXPECT_TRUE(said.starts_with("node 1 (host b) was lost: its dlaunch did not run for ")) << said;
  EXPECT_TRUE(said.ends_with(" (stopped, or the machine was), and the others gave it up")) << said;
}

TEST_F(MemberTest, ANodeThatWasAwayAtTheEndEndsAsTheJobDid) {
  work();
  JobEnding ending;
  ending.fencing = 3;
  ending.outcome.exit_code = 7;
  EXPECT_TRUE(member_.was_in(ending));
  step(JobAlreadyEnded{ending});
  EXPECT_TRUE(told_group<StopWorkers>()) << "they belong to a world that is gone";
  EXPECT_FALSE(got<MemberEnded>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome, ending.outcome);
}

TEST_F(MemberTest, AnEarlierJobOfTheSameNameHasAnotherEnd) {
  JobEnding ending;
  ending.fencing = 3;
  EXPECT_FALSE(member_.was_in(ending)) << "it has been in no world yet";
  step(LinkUp{});
  NewWorld later = world(0);
  later.world.fencing = 4;
  hear(later);
  EXPECT_FALSE(member_.was_in(ending));
  step(JobAlreadyEnded{ending});
  EXPECT_FALSE(told_group<StopWorkers>());
  ending.fencing = 4;
  EXPECT_TRUE(member_.was_in(ending));
}

}  // namespace
}  // namespace dlaunch::agent
