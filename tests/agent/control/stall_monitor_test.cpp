#include "agent/control/stall_monitor.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class StallMonitorTest : public ::testing::Test {
 protected:
  StallMonitorTest() { monitor_.begin(now_); }
  Duration look(std::uint64_t moves, std::uint64_t open = 0) {
    now_ += monitor_.period();
    return monitor_.observe(now_, {moves, open, asks_});
  }
  Duration ask() {
    ++asks_;
    return look(0);
  }
  StallMonitor monitor_{seconds(8)};
  TimePoint now_{seconds(100)};
  std::uint64_t asks_ = 0;
};

TEST_F(StallMonitorTest, CountsFromTheLastMove) {
  EXPECT_EQ(monitor_.period(), seconds(1));
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
  EXPECT_EQ(look(5), seconds(2));
  EXPECT_EQ(look(6), Duration(0));
  EXPECT_EQ(look(6), seconds(1));
}

TEST_F(StallMonitorTest, ARankOnItsWayToAGroupHasMoved) {
  EXPECT_EQ(look(0), seconds(1));
  now_ += monitor_.period();
  EXPECT_EQ(monitor_.observe(now_, {0, 0, 0, 1}), Duration(0));
}

TEST_F(StallMonitorTest, WithoutAnyProgressItCountsFromTheBeginning) {
  EXPECT_EQ(look(0), seconds(1));
  EXPECT_EQ(look(0), seconds(2));
  monitor_.begin(now_);
  EXPECT_EQ(look(0), seconds(1));
}

TEST_F(StallMonitorTest, ALookThatComesLateProvesNothing) {
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
  now_ += seconds(60);  // the job was suspended, its workers with it
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
}

TEST_F(StallMonitorTest, PollingForTheWholeLimitCountsAsWaiting) {
  ask();
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(monitor_.polling(), seconds(i));
    EXPECT_EQ(ask(), seconds(i + 2)) << "it is no move";
  }
  ask();
  EXPECT_EQ(monitor_.polling(), seconds(8));
  for (int i = 0; i < 4; ++i) look(0);
  EXPECT_EQ(monitor_.polling(), seconds(12));
  look(0);
  EXPECT_EQ(monitor_.polling(), Duration(0));
}

TEST_F(StallMonitorTest, OccasionalPollingCountsAsWorking) {
  for (int step = 0; step < 20; ++step) {
    ask();
    for (int i = 0; i < 4; ++i) look(0);
    EXPECT_LT(monitor_.polling(), seconds(8));
  }
}

TEST_F(StallMonitorTest, LooksOftenEnoughAndNotTooOften) {
  EXPECT_EQ(StallMonitor(seconds(3600)).period(), seconds(1));
  EXPECT_EQ(StallMonitor(milliseconds(400)).period(), milliseconds(50));
  EXPECT_EQ(StallMonitor(milliseconds(1)).period(), milliseconds(10));
  EXPECT_FALSE(StallMonitor(Duration(0)).is_on());
  EXPECT_EQ(StallMonitor(Duration(0), seconds(60)).period(), seconds(5)) << "for a note";
  EXPECT_EQ(StallMonitor(Duration(0), seconds(16)).period(), seconds(2));
  EXPECT_EQ(StallMonitor(seconds(3600), seconds(60)).period(), seconds(1));
  EXPECT_EQ(StallMonitor(seconds(3600), seconds(60)).report_after(), seconds(15));
  EXPECT_EQ(StallMonitor(seconds(8), seconds(60)).report_after(), seconds(2));
}

}  // namespace
}  // namespace dlaunch::agent
