// When a coordinator may lead, and for how long it is sure of that.
#include "agent/control/leadership.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class LeadershipTest : public ::testing::Test {
 protected:
  LeadershipTest() {
    job_.nnodes = 4;
    job_.spares = 1;
    job_.node_timeout = seconds(8);
    job_.endpoints = {{"a", 1}, {"b", 1}};
  }
  Leadership leadership() const { return {job_, FencingTokens(1'000'000, now_)}; }
  // The members 0 (this process) to `count` - 1. Each was last asked one second later than the one before.
  void take_members(MemberId count) {
    for (MemberId i = 0; i < count; ++i) here_.add(i, Join{}, "", now_).echoed = now_ + seconds(i);
  }

  JobSpec job_;
  TimePoint now_{seconds(100)};
  Membership here_;
};

TEST_F(LeadershipTest, QuorumIsMoreThanHalfOfAllNodes) {
  EXPECT_EQ(leadership().quorum(), 3);
  job_.spares = 0;
  EXPECT_EQ(leadership().quorum(), 3);
  job_.nnodes = 3;
  EXPECT_EQ(leadership().quorum(), 2);
}

TEST_F(LeadershipTest, MajorityLeadsUntilTooFewAreHere) {
  take_members(2);
  EXPECT_FALSE(leadership().may_begin(here_));
  EXPECT_TRUE(leadership().too_few(here_));
  take_members(3);
  EXPECT_TRUE(leadership().may_begin(here_));
  EXPECT_FALSE(leadership().too_few(here_));
  here_.find(1)->joined.stays = false;
  EXPECT_FALSE(leadership().may_begin(here_)) << "it looks for another endpoint";
}

TEST_F(LeadershipTest, LeadIsSureUntilTheFirstOfAQuorumMayLeave) {
  take_members(2);
  EXPECT_EQ(leadership().sure_until(here_), TimePoint::min());
  take_members(4);  // its own member and those asked last are a quorum
  EXPECT_EQ(leadership().sure_until(here_), now_ + seconds(2) + seconds(8));
}

TEST_F(LeadershipTest, SingleEndpointIsAlwaysSure) {
  job_.endpoints.clear();
  EXPECT_EQ(leadership().sure_until(here_), TimePoint::max());
  EXPECT_FALSE(leadership().too_few(here_));
}

TEST_F(LeadershipTest, ElectedLeaderLeadsForItsLeaseOnly) {
  job_.elected = true;
  take_members(1);
  Leadership elected = leadership();
  EXPECT_FALSE(elected.is_by_majority());
  EXPECT_FALSE(elected.may_begin(here_));
  elected.set_elected_until(now_ + seconds(5));
  EXPECT_TRUE(elected.may_begin(here_));
  EXPECT_TRUE(elected.is_sure(now_, here_));
  EXPECT_FALSE(elected.is_sure(now_ + seconds(5), here_));
  EXPECT_EQ(elected.granting_until(now_, here_), now_ + seconds(5));
  elected.set_elected_until(std::nullopt);
  EXPECT_TRUE(elected.too_few(here_));
  EXPECT_EQ(elected.granting_until(now_, here_), TimePoint::min());
}

TEST_F(LeadershipTest, GrantsFollowTheMembers) {
  take_members(4);
  Leadership lead = leadership();
  EXPECT_EQ(lead.granting_until(now_, here_), now_ + seconds(10));
  here_.remove(3);
  EXPECT_EQ(lead.granting_until(now_, here_), now_ + seconds(9));
}

TEST_F(LeadershipTest, MembersFromBeforeTheLeadMustAnswer) {
  take_members(3);
  Leadership lead = leadership();
  EXPECT_TRUE(lead.all_follow(here_));
  lead.begin(now_ + seconds(2));
  EXPECT_FALSE(lead.all_follow(here_));
  here_.find(1)->echoed = now_ + seconds(2);
  EXPECT_TRUE(lead.all_follow(here_));
}

TEST_F(LeadershipTest, AnnouncedRangeMustBeConfirmed) {
  take_members(3);
  Leadership lead = leadership();
  lead.take_range(now_ + seconds(2), true);
  EXPECT_FALSE(lead.range_is_known(here_));
  here_.find(1)->echoed = now_ + seconds(2);
  EXPECT_TRUE(lead.range_is_known(here_));
  lead.take_range(now_ + seconds(3), false);
  EXPECT_TRUE(lead.range_is_known(here_));
}

TEST_F(LeadershipTest, FenceIsTakenOnce) {
  Leadership lead = leadership();
  EXPECT_FALSE(lead.take_fence(now_));
  lead.fence_at(now_ + seconds(1));
  EXPECT_EQ(lead.next_fence(), now_ + seconds(1));
  EXPECT_FALSE(lead.take_fence(now_));
  EXPECT_TRUE(lead.take_fence(now_ + seconds(1)));
  EXPECT_FALSE(lead.take_fence(now_ + seconds(2)));
  EXPECT_TRUE(lead.has_fence());
  EXPECT_FALSE(lead.next_fence());
  lead.clear_fence();
  EXPECT_FALSE(lead.has_fence());
}

TEST_F(LeadershipTest, EndForgetsWorldAndFence) {
  Leadership lead = leadership();
  lead.begin(now_);
  lead.on_announced();
  lead.fence_at(now_);
  EXPECT_TRUE(lead.has_announced());
  lead.end();
  EXPECT_FALSE(lead.has_announced());
  EXPECT_FALSE(lead.has_fence());
}

}  // namespace
}  // namespace dlaunch::agent
