#include "runtime/rpc/function_times.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

using std::chrono::microseconds;

TEST(FunctionTimes, OneLongFunctionAmongShortOnesDoesNotCount) {
  FunctionTimes times;
  EXPECT_TRUE(times.are_short());
  for (int i = 0; i < 10; ++i) {
    times.add(microseconds(1000));
    EXPECT_TRUE(times.are_short());
    for (int j = 0; j < 8; ++j) times.add(microseconds(1));
  }
}

TEST(FunctionTimes, SeveralLongOnesCountUntilManyWereShort) {
  FunctionTimes times;
  times.add(microseconds(21));
  times.add(microseconds(21));
  EXPECT_FALSE(times.are_short());
  for (int i = 0; i < 100; ++i) times.add(microseconds(1000));
  int calls = 0;
  for (; !times.are_short() && calls < 1000; ++calls) times.add(microseconds(20));
  EXPECT_EQ(calls, 56);
}

}  // namespace
}  // namespace dlaunch::internal
