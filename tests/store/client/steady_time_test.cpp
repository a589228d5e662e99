#include "store/client/steady_time.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(SteadyTime, NeverRunsBackwards) {
  TimePoint before = steady_now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = steady_now();
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST(SteadyTime, ForEverIsADeadlineInTheFuture) {
  const TimePoint now = steady_now();
  EXPECT_EQ(deadline_after(now, std::chrono::seconds(1)), now + std::chrono::seconds(1));
  EXPECT_EQ(deadline_after(now, Duration(-1)), now - Duration(1));
  EXPECT_GT(deadline_after(now, Duration::max()), now + std::chrono::hours(24 * 365));
}

}  // namespace
}  // namespace dlaunch::store
