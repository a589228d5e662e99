// A node that fell silent, and comes back after the job's end.
#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class AbsentNodeTest : public CoordinatorTest {
 protected:
  AbsentNodeTest() {
    job_.min_nodes = 1;
    job_.last_call = Duration(0);
    job_.node_timeout = seconds(4);
  }
  // The job of this node and node 7 ends without node 7.
  void end_without(const MemberLost& lost) {
    gather();
    last_ = coordinator_->step(now_, lost);
    from(0, Stopped{0});
    now_ += seconds(20);  // nothing of it runs any more
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    ASSERT_FALSE(sent<NewWorld>().empty());
    from(0, Done{1});
    ASSERT_FALSE(sent<End>().empty());
  }
};

TEST_F(AbsentNodeTest, IsAnsweredForAWhileAfterTheEnd) {
  end_without({7, {LossKind::silent, "no sign of life"}});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ending);
  now_ += seconds(2);
  Join back = join(1);
  back.joined_once = true;
  from(9, back);
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].first, 9U);
  EXPECT_FALSE(sent<End>()[0].second.outcome.failed);
  now_ += seconds(2);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ended);
}

// The texts of a loss are for people.
TEST_F(AbsentNodeTest, KindOfTheLossDecidesWhateverItsText) {
  end_without({7, {LossKind::silent, "closed by the peer"}});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ending);
  end_without({7, {LossKind::closed, "connection timed out"}});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ended);
}

TEST_F(AbsentNodeTest, IsNotWaitedForWhenItHasEnded) {
  end_without({7, {LossKind::closed, "closed by the peer"}});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ended);
}

TEST_F(AbsentNodeTest, IsNotWaitedForAfterASignal) {
  end_without({7, {LossKind::silent, "no sign of life"}});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ending);
  last_ = coordinator_->step(now_, AgentLeaves{});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::ended);
}

}  // namespace
}  // namespace dlaunch::agent
