// Conversions between timeouts, deadlines and the time that is left.

#include "runtime/base/deadline.h"

#include <gtest/gtest.h>

#include <chrono>

namespace dlaunch::internal {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr Deadline start{};

TEST(Timeout, IsClampedSoThatNoClockOverflows) {
  EXPECT_EQ((Timeout{start, milliseconds(1500)}.deadline()), start + milliseconds(1500));
  EXPECT_EQ((Timeout{start, milliseconds(0)}.deadline()), start);
  EXPECT_EQ((Timeout{start, milliseconds(-1)}.deadline()), start);
  EXPECT_EQ((Timeout{start, milliseconds::min()}.deadline()), start);
  EXPECT_EQ((Timeout{start, longest_timeout}.deadline()), start + longest_timeout);
  EXPECT_EQ((Timeout{start, longest_timeout + milliseconds(1)}.deadline()), start + longest_timeout);
  EXPECT_EQ((Timeout{start, milliseconds::max()}.deadline()), start + longest_timeout);
}

TEST(Timeout, BeginsNow) {
  const Deadline before = std::chrono::steady_clock::now();
  const Timeout timeout = timeout_from_now(hours(1));
  const Deadline deadline = deadline_after(hours(2));
  const Deadline after = std::chrono::steady_clock::now();
  EXPECT_EQ(timeout.length, hours(1));
  EXPECT_GE(timeout.began, before);
  EXPECT_LE(timeout.began, after);
  EXPECT_GE(deadline, before + hours(2));
  EXPECT_LE(deadline, after + hours(2));
}

// A wait of the time that is left must not end before the deadline: it would be repeated without a pause.
TEST(TimeLeft, IsRoundedUp) {
  for (int i = 0; i < 1000; ++i) {
    const Deadline deadline = std::chrono::steady_clock::now() + hours(1) + nanoseconds(i * 1009);
    const milliseconds left = time_left(deadline);
    ASSERT_GE(std::chrono::steady_clock::now() + left, deadline);
    ASSERT_LE(left, hours(1) + milliseconds(3));
  }
}

TEST(TimeLeft, IsNeitherNegativeNorBeyondTheLongest) {
  const Deadline now = std::chrono::steady_clock::now();
  EXPECT_EQ(time_left(now), milliseconds(0));
  EXPECT_EQ(time_left(now - hours(1)), milliseconds(0));
  EXPECT_EQ(time_left(Deadline::max()), longest_timeout);
}

TEST(HasPassed, FromTheDeadlineOn) {
  EXPECT_TRUE(has_passed(std::chrono::steady_clock::now()));
  EXPECT_TRUE(has_passed(Deadline::min()));
  EXPECT_FALSE(has_passed(std::chrono::steady_clock::now() + hours(1)));
  EXPECT_FALSE(has_passed(Deadline::max()));
}

TEST(IsTimeout, NeedsMoreThanNothing) {
  EXPECT_TRUE(is_timeout(milliseconds(1)));
  EXPECT_FALSE(is_timeout(milliseconds(0)));
  EXPECT_FALSE(is_timeout(milliseconds(-1)));
}

TEST(SteadyNs, CountsNanosecondsOfTheClock) {
  EXPECT_EQ(ns_of(start + milliseconds(3) + nanoseconds(7)), 3'000'007);
  const std::int64_t before = ns_of(std::chrono::steady_clock::now());
  const std::int64_t now = steady_ns();
  EXPECT_GE(now, before);
  EXPECT_LE(now, ns_of(std::chrono::steady_clock::now()));
}

TEST(InWords, NamesTheUnit) {
  EXPECT_EQ(in_words(milliseconds(50)), "50 ms");
  EXPECT_EQ(in_words(std::chrono::seconds(30)), "30 s");
}

}  // namespace
}  // namespace dlaunch::internal
