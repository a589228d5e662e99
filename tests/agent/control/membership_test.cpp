#include "agent/control/membership.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class MembershipTest : public testing::Test {
 protected:
  // Its agent's id is 100 more than its number.
  Membership::Node& join(MemberId member, int node_rank = -1, int slots = 2, const std::string& role = "r") {
    Join joined;
    joined.node_rank = node_rank;
    joined.slots = slots;
    joined.host = "h" + std::to_string(member);
    joined.agent = 100 + member;
    joined.role = role;
    return here_.add(member, joined, "10.0.0." + std::to_string(member), now_);
  }
  // The hosts of the world, in the order of their ranks.
  std::vector<std::string> chosen(int most) {
    here_.choose(most, world_);
    std::vector<std::string> hosts;
    for (const WorldMember& member : world_.members) hosts.push_back(member.host);
    EXPECT_EQ(world_.nodes, static_cast<int>(hosts.size()));
    return hosts;
  }
  using Hosts = std::vector<std::string>;

  TimePoint now_{seconds(5)};
  Membership here_;
  World world_;
};

TEST_F(MembershipTest, NodesWithoutARankAreChosenInTheOrderOfTheirArrival) {
  join(7);
  join(3);
  join(5);
  EXPECT_EQ(chosen(2), (Hosts{"h7", "h3"}));
  EXPECT_TRUE(here_.find(7)->active);
  EXPECT_FALSE(here_.find(5)->active) << "a spare";
  EXPECT_EQ(here_.find(5)->rank(), -1);
}

TEST_F(MembershipTest, ARequestedRankIsGiven) {
  join(1);
  join(2, 0);
  join(3, 1);
  EXPECT_EQ(chosen(3), (Hosts{"h2", "h3", "h1"}));
}

TEST_F(MembershipTest, OfTwoThatRequestOneRankTheFirstGetsIt) {
  join(1, 0);
  join(2, 0);
  EXPECT_EQ(chosen(2), (Hosts{"h1", "h2"}));
}

TEST_F(MembershipTest, ANodeThatStaysKeepsItsRankAndANewOneTakesTheLostOnes) {
  for (const MemberId member : {1U, 2U, 3U}) join(member);
  EXPECT_EQ(chosen(3), (Hosts{"h1", "h2", "h3"}));
  here_.remove(1);
  EXPECT_EQ(chosen(3), (Hosts{"h2", "h3"})) << "the order stays without the lost node";
  join(4);
  EXPECT_EQ(chosen(3), (Hosts{"h4", "h2", "h3"}));
}

TEST_F(MembershipTest, ASpareThatStayedComesAfterNodesWithARank) {
  join(1);
  join(2);
  EXPECT_EQ(chosen(1), Hosts{"h1"});
  here_.set_leaving(1);
  EXPECT_EQ(chosen(1), Hosts{"h2"});
  EXPECT_EQ(here_.find(1)->index, -1);
}

TEST_F(MembershipTest, RanksFollowTheNodesAndCountByRole) {
  join(1, -1, 2, "trainer");
  join(2, -1, 1, "reader");
  join(3, -1, 3, "trainer");
  chosen(3);
  EXPECT_EQ(world_.world_size, 6);
  EXPECT_EQ(world_.members[1].base_rank, 2);
  EXPECT_EQ(world_.members[2].base_rank, 3);
  EXPECT_EQ(world_.members[2].role_base, 2);
  EXPECT_EQ(world_.members[0].role_world_size, 5);
  EXPECT_EQ(world_.members[1].role_world_size, 1);
  EXPECT_EQ(world_.members[2].agent, 103U);
  EXPECT_EQ(world_.blocks, (std::vector<NodeBlock>{{1, 2}, {1, 1}, {1, 3}}));
}

TEST_F(MembershipTest, NodesWithEquallyManyWorkersAreOneBlock) {
  for (const MemberId member : {1U, 2U, 3U}) join(member, -1, member == 3 ? 1 : 2);
  chosen(3);
  EXPECT_EQ(world_.blocks, (std::vector<NodeBlock>{{2, 2}, {1, 1}}));
  for (MemberId member = 4; member < 4 + max_node_blocks; ++member) join(member, -1, member % 2 == 0 ? 2 : 1);
  chosen(100);
  EXPECT_TRUE(world_.blocks.empty()) << "too many to list";
}

TEST_F(MembershipTest, AStickyRankOutsideTheWorldIsReplaced) {
  join(1).sticky_rank = 7;
  join(2).sticky_rank = 1;
  EXPECT_EQ(chosen(2), (Hosts{"h1", "h2"}));
  EXPECT_EQ(here_.find(1)->sticky_rank, 0);
}

TEST_F(MembershipTest, OnlyANodeThatWasInAWorldBringsAStickyRank) {
  Join joined;
  joined.sticky_rank = 3;
  EXPECT_EQ(here_.add(1, joined, "", now_).sticky_rank, -1);
  joined.joined_once = true;
  EXPECT_EQ(here_.add(2, joined, "", now_).sticky_rank, 3);
}

TEST_F(MembershipTest, AChosenNodeRunsUntilItHasStopped) {
  join(1);
  EXPECT_TRUE(here_.all_stopped());
  chosen(1);
  EXPECT_FALSE(here_.all_stopped());
  EXPECT_FALSE(here_.all_done());
  here_.find(1)->done = true;
  EXPECT_TRUE(here_.all_done() && here_.any_done());
}

TEST_F(MembershipTest, AllHaveStoppedInWhateverOrderTheyDo) {
  std::vector<MemberId> order{1, 2, 3, 4};
  for (const MemberId member : order) join(member);
  do {
    chosen(4);
    for (const MemberId member : order) {
      EXPECT_FALSE(here_.all_stopped() || here_.all_done());
      here_.find(member)->stopped = here_.find(member)->done = true;
    }
    EXPECT_TRUE(here_.all_stopped() && here_.all_done());
    here_.find(2)->stopped = false;
    EXPECT_FALSE(here_.all_stopped()) << "one that was asked before";
    here_.find(2)->stopped = true;
  } while (std::ranges::next_permutation(order).found);
  for (const MemberId member : order) here_.remove(member);
  EXPECT_TRUE(here_.all_stopped()) << "there is none";
}

TEST_F(MembershipTest, ASpareIsNeverWaitedForToBeDone) {
  join(1);
  join(2);
  chosen(1);
  here_.find(1)->done = true;
  EXPECT_TRUE(here_.all_done());
  here_.find(1)->done = false;
  here_.find(2)->done = true;
  EXPECT_FALSE(here_.any_done());
}

TEST_F(MembershipTest, LeavingNodesAreNotReady) {
  join(1);
  join(2);
  here_.find(2)->joined.stays = false;
  EXPECT_EQ(here_.ready(), 2);
  EXPECT_EQ(here_.staying(), 1);
  here_.set_leaving(1);
  EXPECT_EQ(here_.ready(), 1);
  EXPECT_EQ(here_.staying(), 0);
  here_.set_leaving(1);
  EXPECT_EQ(here_.ready(), 1) << "it leaves once";
  here_.remove(1);
  EXPECT_EQ(here_.ready(), 1);
  here_.remove(2);
  EXPECT_EQ(here_.ready(), 0);
}

TEST_F(MembershipTest, EachChangeOfTheNodesIsCounted) {
  std::set<std::uint64_t> seen{here_.changes()};
  join(1);
  EXPECT_TRUE(seen.insert(here_.changes()).second) << "a node came";
  here_.set_leaving(1);
  EXPECT_TRUE(seen.insert(here_.changes()).second) << "it leaves";
  here_.remove(1);
  EXPECT_TRUE(seen.insert(here_.changes()).second) << "it is gone";
  here_.remove(1);
  EXPECT_FALSE(seen.insert(here_.changes()).second) << "it was gone before";
}

TEST_F(MembershipTest, TheOwnNodeAndLeavingOnesNeedNotAnswer) {
  join(local_member);
  Membership::Node& remote = join(1);
  EXPECT_FALSE(here_.all_have_answered(now_));
  remote.echoed = now_;
  EXPECT_TRUE(here_.all_have_answered(now_));
  EXPECT_FALSE(here_.all_have_answered(now_ + seconds(1)));
  here_.set_leaving(1);
  EXPECT_TRUE(here_.all_have_answered(now_ + seconds(1)));
}

TEST_F(MembershipTest, IsSearchedByAgentAndByRequestedRank) {
  join(1, 4);
  EXPECT_EQ(here_.of_agent(101), 1U);
  EXPECT_EQ(here_.of_agent(102), std::nullopt);
  EXPECT_EQ(here_.of_rank(4), 1U);
  EXPECT_EQ(here_.of_rank(1), std::nullopt);
  EXPECT_EQ(here_.find(9), nullptr);
  EXPECT_FALSE(here_.remove(9));
  EXPECT_EQ(here_.remove(1)->joined.host, "h1");
  EXPECT_EQ(here_.find(1), nullptr);
  EXPECT_EQ(here_.of_agent(101), std::nullopt);
  EXPECT_EQ(here_.of_rank(4), std::nullopt);
}

TEST_F(MembershipTest, OfTwoThatRequestOneRankTheOtherStays) {
  join(1, 4);
  join(2, 4);
  here_.remove(1);
  EXPECT_EQ(here_.of_rank(4), 2U);
  here_.remove(2);
  EXPECT_EQ(here_.of_rank(4), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::agent
