#include "agent/control/last_call.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST(LastCallTest, BeginsOnceAndEndsAfterItsPatience) {
  const TimePoint now{seconds(100)};
  LastCall call(4, seconds(30));
  EXPECT_TRUE(call.begin(now, 2));
  EXPECT_FALSE(call.begin(now + seconds(1), 3));
  EXPECT_EQ(call.until(), now + seconds(30));
  EXPECT_EQ(call.over_at(3), now + seconds(30));
  call.cancel();
  EXPECT_FALSE(call.until());
  EXPECT_TRUE(call.begin(now + seconds(9), 2));
}

TEST(LastCallTest, WithEnoughNodesThereIsNoWait) {
  LastCall call(2, seconds(30));
  EXPECT_FALSE(call.begin(TimePoint(), 2));
  EXPECT_FALSE(call.until());
  EXPECT_EQ(call.over_at(2), TimePoint::min());
}

}  // namespace
}  // namespace dlaunch::agent
