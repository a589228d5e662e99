// How long the parts of a step took.

#include "runtime/gradients/step_times.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

using std::chrono::nanoseconds;

TEST(StepTimes, AreTakenFromTheMoments) {
  const StepTimes times = times_of(
      {.begin = 100, .first_gradient = 150, .last_gradient = 300, .first_launch = 200, .last_end = 420});
  EXPECT_EQ(times.forward, nanoseconds(50));
  EXPECT_EQ(times.backward, nanoseconds(150));
  EXPECT_EQ(times.communication, nanoseconds(220));
  EXPECT_EQ(times.overlap, nanoseconds(100));
}

TEST(StepTimes, OverlapEndsWithTheCommunication) {
  EXPECT_EQ(
      times_of({.begin = 1, .first_gradient = 2, .last_gradient = 90, .first_launch = 10, .last_end = 30})
          .overlap,
      nanoseconds(20));
}

// The first bucket starts when the last gradient is there, or a moment later.
TEST(StepTimes, WithoutOverlapItIsZero) {
  EXPECT_EQ(
      times_of({.begin = 1, .first_gradient = 2, .last_gradient = 9, .first_launch = 10, .last_end = 30})
          .overlap,
      nanoseconds(0));
}

TEST(StepTimes, WhatHasNotHappenedTakesNoTime) {
  const StepTimes times =
      times_of({.begin = 100, .last_gradient = 200, .first_launch = 200, .last_end = 210});
  EXPECT_EQ(times.forward, nanoseconds(0));
  EXPECT_EQ(times.backward, nanoseconds(0));
}

TEST(StepTimes, TheirAverage) {
  AverageTimes times;
  EXPECT_EQ(times.average().backward, nanoseconds(0));
  times.add({.forward = nanoseconds(10), .backward = nanoseconds(20), .communication = nanoseconds(2)});
  times.add({.forward = nanoseconds(20), .backward = nanoseconds(40), .overlap = nanoseconds(8)});
  EXPECT_EQ(times.steps(), 2U);
  EXPECT_EQ(times.average().forward, nanoseconds(15));
  EXPECT_EQ(times.average().backward, nanoseconds(30));
  EXPECT_EQ(times.average().communication, nanoseconds(1));
  EXPECT_EQ(times.average().overlap, nanoseconds(4));
}

}  // namespace
}  // namespace dlaunch::internal
