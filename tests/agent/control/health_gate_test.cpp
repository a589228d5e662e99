#include "agent/control/health_gate.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class HealthGateTest : public ::testing::Test {
 protected:
  TimePoint now_{seconds(100)};
  HealthGate gate_;
};

TEST_F(HealthGateTest, SlowCheckIsKilledOnce) {
  EXPECT_FALSE(gate_.take_kill(now_));
  gate_.begin(now_ + seconds(5), true);
  EXPECT_TRUE(gate_.is_running());
  EXPECT_EQ(gate_.kill_at(), now_ + seconds(5));
  EXPECT_FALSE(gate_.take_kill(now_));
  EXPECT_TRUE(gate_.take_kill(now_ + seconds(5)));
  EXPECT_FALSE(gate_.take_kill(now_ + seconds(6)));
  EXPECT_FALSE(gate_.kill_at());
  EXPECT_TRUE(gate_.is_running()) << "its end is still to come";
  EXPECT_TRUE(gate_.end());
  EXPECT_TRUE(gate_.was_killed());
}

TEST_F(HealthGateTest, CheckEndsOnce) {
  EXPECT_FALSE(gate_.end());
  gate_.begin(now_, true);
  EXPECT_TRUE(gate_.end());
  EXPECT_FALSE(gate_.end());
  EXPECT_FALSE(gate_.take_kill(now_ + seconds(1)));
}

TEST_F(HealthGateTest, NextCheckIsJudgedByItself) {
  gate_.begin(now_, true);
  gate_.take_kill(now_);
  EXPECT_TRUE(gate_.was_first());
  gate_.begin(now_ + seconds(5), false);
  EXPECT_FALSE(gate_.was_killed());
  EXPECT_FALSE(gate_.was_first());
}

}  // namespace
}  // namespace dlaunch::agent
