// Hangs of jobs with so many nodes that the coordinator does not look at all of them after each message.
#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class ManyNodesTest : public CoordinatorTest {
 protected:
  static constexpr int nodes = 200;

  ManyNodesTest() {
    job_.min_nodes = job_.nnodes = nodes;
    job_.hang_timeout = seconds(10);
    job_.hang_note = {};
    begin();
    for (int i = 0; i < nodes; ++i) from(static_cast<MemberId>(i), join(i, 1));
    EXPECT_EQ(sent<NewWorld>().size(), nodes);
  }
  // All nodes report that nothing has moved for so long.
  void report(Duration quiet) {
    for (int i = 0; i < nodes; ++i) {
      from(static_cast<MemberId>(i), Progress{0, quiet, true, {}});
      stopped_ = stopped_ || !sent<StopRound>().empty();
      for (const auto& action : last_) {
        if (const auto* timer = std::get_if<ArmCoordinatorTimer>(&action)) armed_ = timer->at;
      }
    }
  }

  // At the time that was asked for.
  void look() {
    now_ = armed_;
    last_ = coordinator_->step(now_, CoordinatorTimer{});
  }

  bool stopped_ = false;
  TimePoint armed_;
};

TEST_F(ManyNodesTest, AHangIsFoundShortlyAfterTheReports) {
  report(seconds(10));
  EXPECT_FALSE(stopped_) << "the first look found no report of the others";
  EXPECT_EQ(armed_, now_ + nodes * PacedLooks::pause_for_a_node);
  look();
  EXPECT_EQ(sent<StopRound>().size(), nodes);
}

TEST_F(ManyNodesTest, WhatMovesAgainBeforeTheLookIsNoHang) {
  report(seconds(10));
  from(150, Progress{0, {}, false, {}});
  look();
  EXPECT_TRUE(sent<StopRound>().empty());
  now_ += seconds(1);
  from(150, Progress{0, seconds(11), true, {}});
  EXPECT_EQ(sent<StopRound>().size(), nodes) << "a look after a pause is at once";
}

}  // namespace
}  // namespace dlaunch::agent
