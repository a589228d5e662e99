#include "agent/model/suspension_detector.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint start{seconds(100)};
constexpr Duration node_timeout = seconds(5);

TEST(SuspensionDetector, ATimerThatIsFarTooLateShowsASuspension) {
  SuspensionDetector detector;
  detector.look(start + milliseconds(2400), start, node_timeout);
  EXPECT_EQ(detector.describe(start + milliseconds(2400)), "") << "less than half of the limit";
  detector.look(start + seconds(6), start, node_timeout);
  EXPECT_EQ(detector.describe(start + seconds(6)),
            "its dlaunch did not run for 6 s (stopped, or the machine was)");
  EXPECT_EQ(detector.describe(start + seconds(9)), "") << "what follows later has another cause";
}

TEST(SuspensionDetector, WithoutATimerOrALimitNothingIsKnown) {
  SuspensionDetector detector;
  detector.look(start, std::nullopt, node_timeout);
  EXPECT_EQ(detector.describe(start), "");
  detector.look(start + seconds(60), start, Duration(0));
  EXPECT_EQ(detector.describe(start + seconds(60)), "");
}

}  // namespace
}  // namespace dlaunch::agent
