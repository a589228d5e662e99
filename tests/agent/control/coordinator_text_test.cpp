// What the coordinator shows of itself and its nodes.
#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class CoordinatorText : public CoordinatorTest {
 protected:
  std::string waiting() { return coordinator_->view(now_).waiting_for; }
};

TEST_F(CoordinatorText, MissingNodesWithFixedRanksAreNamedByTheirRanks) {
  job_.nnodes = 4;
  begin();
  EXPECT_EQ(waiting(), "nodes 0, 1, 2 and 3 of 4");
  from(0, join(0));
  from(7, join(2));
  EXPECT_EQ(waiting(), "nodes 1 and 3 of 4");
  from(8, join(3));
  EXPECT_EQ(waiting(), "node 1 of 4");
}

TEST_F(CoordinatorText, ManyMissingNodesAreCounted) {
  job_.nnodes = 12;
  begin();
  from(0, join(0));
  EXPECT_EQ(waiting(), "nodes 1, 2, 3, 4, 5, 6, 7, 8 and 3 more of 12");
}

TEST_F(CoordinatorText, MissingNodesOfAnyRankAreCounted) {
  job_.nnodes = 4;
  job_.min_nodes = 2;
  begin();
  EXPECT_EQ(waiting(), "2 more nodes of at least 2");
  Join any = join(0);
  any.node_rank = -1;
  from(0, any);
  EXPECT_EQ(waiting(), "1 more node of at least 2 (here: host0)");
}

TEST_F(CoordinatorText, ARunningJobWaitsForNothingAndShowsItsRanks) {
  gather();
  const WorldView view = coordinator_->view(now_ + seconds(3));
  EXPECT_EQ(view.job, job_.id);
  EXPECT_EQ(view.state, "running");
  EXPECT_EQ(view.waiting_for, "");
  EXPECT_EQ(view.round, 0);
  EXPECT_EQ(view.world_size, 4);
  EXPECT_EQ(view.age_s, 3);
  ASSERT_EQ(view.nodes.size(), 2U);
  EXPECT_EQ(view.nodes[1].host, "host1");
  EXPECT_EQ(view.nodes[1].state, "running");
  EXPECT_EQ(view.nodes[1].first_rank, 2);
}

TEST_F(CoordinatorText, BeforeTheFirstRoundThereIsNoneToShow) {
  begin();
  from(0, join(0));
  const WorldView view = coordinator_->view(now_);
  EXPECT_EQ(view.state, "gathering");
  EXPECT_EQ(view.round, -1);
  EXPECT_EQ(view.world_size, 0);
  EXPECT_EQ(view.age_s, 0);
  ASSERT_EQ(view.nodes.size(), 1U);
  EXPECT_EQ(view.nodes[0].state, "joined");
  EXPECT_EQ(view.nodes[0].first_rank, -1);
}

TEST_F(CoordinatorText, AFailedRoundIsShownUntilEveryNodeHasStopped) {
  gather();
  from(7, failed(0, 3));
  EXPECT_EQ(coordinator_->view(now_).state, "stopping");
  EXPECT_EQ(waiting(), "the workers of node 0 (host host0), node 1 (host host1) to stop");
  from(7, Stopped{0});
  EXPECT_EQ(waiting(), "the workers of node 0 (host host0) to stop");
  EXPECT_EQ(coordinator_->view(now_).nodes[1].state, "stopped");
  EXPECT_EQ(coordinator_->view(now_).nodes[0].state, "stopping");
}

TEST_F(CoordinatorText, ARestartIsShownWithItsCause) {
  gather();
  from(7, failed(0, 3));
  from(7, Stopped{0});
  from(0, Stopped{0});
  const WorldView view = coordinator_->view(now_);
  EXPECT_EQ(view.restarts_used, 1);
  EXPECT_EQ(view.max_restarts, 1);
  ASSERT_EQ(view.incidents.size(), 1U);
  EXPECT_EQ(view.incidents[0].number, 1);
  EXPECT_NE(view.incidents[0].text.find("rank 3"), std::string::npos) << view.incidents[0].text;
}

TEST_F(CoordinatorText, ANodeThatIsDoneIsShownSo) {
  gather();
  from(7, Done{0});
  EXPECT_EQ(coordinator_->view(now_).nodes[1].state, "done");
  EXPECT_EQ(coordinator_->view(now_).nodes[0].state, "running");
}

}  // namespace
}  // namespace dlaunch::agent
