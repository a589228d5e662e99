// From when the next world may begin without the workers of lost nodes.
#include "agent/control/earlier_worlds.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class EarlierWorldsTest : public ::testing::Test {
 protected:
  EarlierWorldsTest() {
    job_.nnodes = 2;
    job_.node_timeout = seconds(8);
  }
  EarlierWorlds worlds() const { return {job_, began_}; }
  Leadership leadership() const { return {job_, FencingTokens(0, began_)}; }
  // A leader that has announced a world itself knows all earlier ones.
  Leadership with_world() const {
    Leadership lead = leadership();
    lead.on_announced();
    return lead;
  }
  LeaseRules leases() const { return LeaseRules(job_.node_timeout); }
  static Membership::Node lost_node(TimePoint heard) {
    Membership::Node node;
    node.joined.agent = 7;
    node.address = "10.0.0.7";
    node.stopped = false;
    node.last_heard = heard;
    return node;
  }
  // A member that remembers round 3 of agent 9, which had `nodes` nodes.
  void remembers(MemberId member, int nodes, Duration lease, Duration rest) {
    Join join;
    join.agent = member + 1;
    join.joined_once = true;
    join.round = 3;
    join.leader = 9;
    join.nodes = nodes;
    join.sticky_rank = static_cast<int>(member);
    join.lease = lease;
    join.rest = rest;
    here_.add(member, join, "", now_);
  }

  JobSpec job_;
  TimePoint began_{seconds(90)};
  TimePoint now_{seconds(100)};
  Membership here_;
};

TEST_F(EarlierWorldsTest, SilentNodesWorkersLiveForALeaseMore) {
  EarlierWorlds worlds = this->worlds();
  worlds.on_left_running(now_, lost_node(now_ - seconds(1)), true);
  EXPECT_EQ(worlds.gone_by(here_, with_world()), leases().gone_if_silent(now_ - seconds(1)));
  EXPECT_EQ(worlds.blocked_hosts(here_, now_), std::set<std::string>{"10.0.0.7"});
  worlds.on_returned(7);
  EXPECT_EQ(worlds.gone_by(here_, with_world()), TimePoint::min());
}

TEST_F(EarlierWorldsTest, ClosedConnectionEndsTheWaitSoon) {
  EarlierWorlds worlds = this->worlds();
  worlds.on_left_running(now_, lost_node(now_), false);
  EXPECT_EQ(worlds.gone_by(here_, with_world()), leases().gone_if_closed(now_));
  worlds.on_world();
  EXPECT_EQ(worlds.gone_by(here_, with_world()), TimePoint::min());
}

TEST_F(EarlierWorldsTest, NodeWithoutWorkersIsNotWaitedFor) {
  EarlierWorlds worlds = this->worlds();
  Membership::Node node = lost_node(now_);
  node.stopped = true;
  worlds.on_left_running(now_, node, true);
  EXPECT_EQ(worlds.gone_by(here_, with_world()), TimePoint::min());
  EXPECT_TRUE(worlds.blocked_hosts(here_, now_).empty());
}

TEST_F(EarlierWorldsTest, WithoutNodeTimeoutNothingIsWaitedFor) {
  job_.node_timeout = Duration(0);
  EarlierWorlds worlds = this->worlds();
  worlds.on_left_running(now_, lost_node(now_), true);
  EXPECT_EQ(worlds.gone_by(here_, leadership()), TimePoint::min());
  EXPECT_EQ(worlds.blocked_hosts(here_, now_ + seconds(1'000'000)).size(), 1U) << "but it is kept out";
}

TEST_F(EarlierWorldsTest, NewNodesAloneHaveNoEarlierWorld) {
  EXPECT_EQ(worlds().gone_by(here_, leadership()), leases().gone_if_silent(began_));
  here_.add(0, Join{}, "", now_);
  here_.add(1, Join{}, "", now_);
  EXPECT_EQ(worlds().gone_by(here_, leadership()), TimePoint::min());
}

TEST_F(EarlierWorldsTest, MembersOfAWholeWorldReportTheirOwnWorkers) {
  job_.endpoints.resize(2);
  remembers(0, 2, seconds(5), seconds(6));
  remembers(1, 2, seconds(5), seconds(6));
  EXPECT_EQ(worlds().gone_by(here_, leadership()), TimePoint::min());
}

TEST_F(EarlierWorldsTest, MissingLeadersLeaseIsWaitedFor) {
  remembers(0, 2, seconds(5), seconds(6));
  EXPECT_EQ(worlds().gone_by(here_, leadership()), now_ + seconds(5));
  here_ = {};
  remembers(0, 3, seconds(5), seconds(6));
  EXPECT_EQ(worlds().gone_by(here_, leadership()), now_ + seconds(6)) << "another node is missing, too";
}

// The member was silent for long, and its last world is over. The coordinator before this one has formed
// another meanwhile, of nodes that are not here yet, and has granted them leases until it ended.
TEST_F(EarlierWorldsTest, OnlyEndpointsLastLeaderMayHaveGrantedALeaseToAbsentNodes) {
  job_.nnodes = 4;
  began_ = now_;
  remembers(1, 2, seconds(0), seconds(0));
  here_.add(0, Join{}, "", now_);
  EXPECT_EQ(worlds().gone_by(here_, leadership()), leases().gone_if_silent(began_));
  remembers(2, 2, seconds(0), seconds(0));
  remembers(3, 2, seconds(0), seconds(0));
  EXPECT_EQ(worlds().gone_by(here_, leadership()), leases().gone_if_silent(began_))
      << "all nodes of the job are here, but a spare may have taken the place of one";
}

TEST_F(EarlierWorldsTest, HostileLeaseIsBounded) {
  remembers(0, 2, seconds(1'000'000), seconds(0));
  EXPECT_EQ(worlds().gone_by(here_, leadership()), now_ + leases().longest_fence());
}

TEST_F(EarlierWorldsTest, ElectedLeaderWaitsForTheLastLeadersLease) {
  job_.elected = true;
  remembers(0, 3, seconds(0), seconds(0));
  Leadership lead = leadership();
  lead.begin(now_);
  EXPECT_EQ(worlds().gone_by(here_, lead), leases().gone_if_elected(now_));
}

// Its leader's agent was killed, and each node that is needed was replaced: none of them knows of one more
// that has a lease.
TEST_F(EarlierWorldsTest, SuccessorWaitsForLeasesOfNodesNobodyRemembers) {
  for (MemberId member = 0; member < 2; ++member) {
    Join join;
    join.agent = member + 1;
    here_.add(member, join, "", now_);
  }
  EXPECT_EQ(worlds().gone_by(here_, leadership()), TimePoint::min())
      << "the first coordinator begins at once";
  EarlierWorlds successor{job_, began_, true};
  EXPECT_EQ(successor.gone_by(here_, leadership()), leases().gone_if_silent(began_));
  EXPECT_EQ(successor.gone_by(here_, with_world()), TimePoint::min());
}

TEST_F(EarlierWorldsTest, LostNodeMayRunWorkersUntilItsLeaseIsOver) {
  EarlierWorlds worlds = this->worlds();
  EXPECT_FALSE(worlds.may_run(now_));
  worlds.on_left_running(now_, lost_node(now_), true);
  EXPECT_TRUE(worlds.may_run(now_));
  EXPECT_FALSE(worlds.may_run(leases().gone_if_silent(now_)));
}

}  // namespace
}  // namespace dlaunch::agent
