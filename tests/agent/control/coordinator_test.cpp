// What the coordinator does when its timer fires.

#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST_F(CoordinatorTest, NodesAreNotifiedOfMissingNodes) {
  job_.nnodes = 3;
  begin();
  from(0, join(0));
  from(7, join(1));
  now_ += seconds(5);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<Notice>().size(), 1U) << "its own member hears it anyhow";
  EXPECT_EQ(sent<Notice>().front().second.text,
            "waiting for node 2 of 3 at m:29500 (5 s so far; giving up in 55 s)");
  EXPECT_EQ(coordinator_->view(now_).waiting_for, "node 2 of 3");
}

TEST_F(CoordinatorTest, NodeThatStopsSlowlyIsNamed) {
  gather();
  from(7, failed(0, 3));
  from(7, Stopped{0});
  now_ += seconds(5);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_TRUE(did<LogMessage>());
  EXPECT_EQ(std::get<LogMessage>(last_[0]).text,
            "waiting for the workers of node 0 (host host0) to stop (5 s so far; giving up in 55 s)");
}

TEST_F(CoordinatorTest, MissingNodeIsNamedAtTheDeadline) {
  begin();
  from(0, join(0));
  now_ += seconds(10);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_TRUE(did<LogMessage>());
  EXPECT_EQ(std::get<LogMessage>(last_[0]).text,
            "waiting for node 1 of 2 at m:29500 (10 s so far; giving up in 50 s)");
  now_ += seconds(50);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].second.outcome.exit_code, 1);
  EXPECT_EQ(sent<End>()[0].second.outcome.cause.why,
            "node 1 of 2 did not join at m:29500 within 1 min 0 s (--join-timeout)");
  EXPECT_TRUE(sent<End>()[0].second.outcome.cause.remedy.starts_with(
      "start this command on the missing node, with --node-rank=1; "));
}

}  // namespace
}  // namespace dlaunch::agent
