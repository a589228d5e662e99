// Fencing tokens from one world to the next, and from one coordinator to the next.
#include <gtest/gtest.h>

#include <optional>

#include "agent/control/coordinator.h"
#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

constexpr std::int64_t now_us = 1'700'000'000'000'000;
constexpr std::uint64_t now_token = now_us;
constexpr std::uint64_t day_us = 86'400'000'000;

class FencingOfWorlds : public ::testing::Test {
 protected:
  FencingOfWorlds() {
    job_.min_nodes = 1;
    job_.max_restarts = 3;
  }
  void start_coordinator(std::int64_t unix_us) {
    coordinator_.emplace(job_, job_.master, 100, now_, unix_us);
    coordinator_->begin();
  }
  Join join(int node, std::uint64_t fencing = 0) {
    Join join = example_join(job_, node, 1);
    join.fencing = fencing;
    return join;
  }
  void from(MemberId member, Message message) {
    last_ = coordinator_->step(now_, FromMember{member, std::move(message)});
  }
  template <class M>
  std::optional<M> told(MemberId member) const {
    std::optional<M> found;
    for (const auto& action : last_) {
      const auto* to = std::get_if<ToMember>(&action);
      if (to == nullptr || to->member != member) continue;
      if (const auto* message = std::get_if<M>(&to->message)) found = *message;
    }
    return found;
  }
  // Of the world that the last step has formed; 0: none.
  std::uint64_t token(MemberId member = local_member) const {
    const auto world = told<NewWorld>(member);
    return world ? world->world.fencing : 0;
  }
  void restart_workers() {
    const std::uint32_t round = coordinator_->round();
    Failure failure;
    failure.kind = FailureKind::worker;
    failure.round = round;
    failure.rank = 0;
    failure.status = {ExitStatus::How::exited, 3, false};
    from(0, Failed{failure, {}});
    from(7, Stopped{round});
    from(0, Stopped{round});
  }

  TimePoint now_{seconds(100)};
  JobSpec job_ = example_job();
  std::optional<Coordinator> coordinator_;
  CoordinatorActions last_;
};

TEST_F(FencingOfWorlds, GrowWithEachWorldAndAreTheSameOnAllNodes) {
  start_coordinator(now_us);
  from(0, join(0));
  from(7, join(1));
  const std::uint64_t first = token();
  EXPECT_GE(first, now_token);
  EXPECT_EQ(token(7), first);
  restart_workers();
  EXPECT_EQ(token(), first + 1);
  EXPECT_EQ(token(7), first + 1);
}

TEST_F(FencingOfWorlds, GrowWhenTheAgentRestartsWithAnEarlierClock) {
  start_coordinator(now_us);
  from(0, join(0));
  from(7, join(1));
  const std::uint64_t first = token();
  start_coordinator(now_us - 3'600'000'000);
  from(0, join(0));
  from(7, join(1, first));
  EXPECT_GT(token(), first);
}

TEST_F(FencingOfWorlds, GrowWhenAllAgentsRestart) {
  start_coordinator(now_us);
  from(0, join(0));
  from(7, join(1));
  const std::uint64_t first = token();
  start_coordinator(now_us + 1000);
  from(0, join(0));
  from(7, join(1));
  EXPECT_GT(token(), first);
}

TEST_F(FencingOfWorlds, AreNotMovedByAStrangerThatClaimsTheFuture) {
  start_coordinator(now_us);
  for (const std::uint64_t claim : {now_token + 2 * day_us, FencingTokens::highest, UINT64_MAX}) {
    from(7, join(1, claim));
    const auto refused = told<Refused>(7);
    ASSERT_TRUE(refused);
    EXPECT_FALSE(refused->for_good);
    EXPECT_EQ(
        refused->why,
        "its fencing token " + std::to_string(claim) +
            " is more than a day ahead of this node's clock; set the clocks of all nodes to the same time");
  }
  from(0, join(0));
  from(8, join(1));
  const std::uint64_t first = token();
  EXPECT_LT(first, now_token + 1'000'000);
  from(9, join(-1, now_token + day_us / 2));  // a spare, once the world has begun
  restart_workers();
  from(9, Stopped{0});
  from(8, Stopped{0});
  EXPECT_EQ(token(), first + 1);
}

// Real nodes come back after a stranger has claimed a round that no job reaches.
TEST_F(FencingOfWorlds, ARoundThatAStrangerClaimsLeavesRoomForTheJobs) {
  start_coordinator(now_us);
  Join stranger = join(1);
  stranger.joined_once = true;
  stranger.round = 1U << 30;
  from(7, stranger);
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::closed, "gone"}});
  from(0, join(0));
  from(8, join(1));
  EXPECT_EQ(coordinator_->round(), 0U);
  // While a world runs, a single coordinator knows all of the job's rounds.
  stranger.agent = 200;
  stranger.node_rank = -1;
  stranger.round = 1000;
  from(9, stranger);
  from(9, Stopped{1000});
  restart_workers();
  from(8, Stopped{0});
  EXPECT_EQ(coordinator_->round(), 1U);
}

class FencingAcrossLeaders : public FencingOfWorlds {
 protected:
  FencingAcrossLeaders() {
    job_.nnodes = 3;
    job_.min_nodes = 2;
    job_.endpoints = {{"a", 1}, {"b", 1}, {"c", 1}};
  }
  void answer(MemberId member) { from(member, Heartbeat{stamp_of(now_)}); }
};

TEST_F(FencingAcrossLeaders, AMajorityKnowsTheRangeBeforeTheFirstWorld) {
  start_coordinator(now_us);
  from(0, join(0, now_token + 5));
  from(7, join(1, now_token + 10));
  const auto welcome = told<Welcome>(7);
  ASSERT_TRUE(welcome && welcome->leads);
  EXPECT_GE(welcome->fencing, now_token + 10 + FencingTokens::per_lead);
  EXPECT_EQ(token(), 0U);
  from(8, join(2));
  answer(7);
  EXPECT_EQ(token(), 0U) << "node 2 has not confirmed it";
  answer(8);
  EXPECT_EQ(token(), welcome->fencing);
}

// A member has followed another leader while this one had not noticed that it was gone.
TEST_F(FencingAcrossLeaders, HigherRangeOfAMemberIsExceededAndConfirmedAgain) {
  start_coordinator(now_us);
  from(0, join(0));
  from(7, join(1));
  const std::uint64_t first = told<Welcome>(7)->fencing;
  now_ += seconds(1);
  from(8, join(2, first));  // of the same range: another lead may have begun with it
  answer(7);
  const auto early = stamp_of(now_);
  now_ += seconds(1);
  from(8, Heartbeat{early});
  EXPECT_EQ(token(), 0U);
  const auto again = told<Welcome>(7);
  ASSERT_TRUE(again && again->leads);
  EXPECT_GE(again->fencing, first + FencingTokens::per_lead);
  now_ += seconds(1);
  answer(7);
  EXPECT_EQ(token(), 0U) << "node 2 has not confirmed it";
  answer(8);
  EXPECT_EQ(token(), again->fencing);
}

}  // namespace
}  // namespace dlaunch::agent
