#include "runtime/rpc/function_times.h"

#include <gtest/gtest.h>

#include <thread>

#include "runtime/base/quick_clock.h"

namespace dlaunch::internal {
namespace {

TEST(FunctionTimes, OneLongFunctionAmongShortOnesDoesNotCount) {
  FunctionTimes times;
  EXPECT_TRUE(times.are_short());
  for (int i = 0; i < 10; ++i) {
    times.add(true);
    EXPECT_TRUE(times.are_short());
    for (int j = 0; j < 8; ++j) times.add(false);
  }
}

TEST(FunctionTimes, SeveralLongOnesCountUntilManyWereShort) {
  FunctionTimes times;
  times.add(true);
  times.add(true);
  EXPECT_FALSE(times.are_short());
  for (int i = 0; i < 100; ++i) times.add(true);
  int calls = 0;
  for (; !times.are_short() && calls < 1000; ++calls) times.add(false);
  EXPECT_EQ(calls, 56);
}

// Those that sleep, and those that compute.
TEST(FunctionTimes, LongFunctionsAreFound) {
  for (const bool sleeps : {true, false}) {
    FunctionTimes times;
    for (int i = 0; i < 4; ++i) {
      const FunctionTimes::Begin begin = times.begin();
      const Deadline end = begin.now + std::chrono::milliseconds(2);
      if (sleeps) std::this_thread::sleep_until(end + std::chrono::milliseconds(1));
      while (QuickClock::now() < end) {
      }
      times.end(begin, {});
    }
    EXPECT_FALSE(times.are_short()) << sleeps;
  }
}

}  // namespace
}  // namespace dlaunch::internal
