#include "agent/control/leader_clock.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dlaunch::agent {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t leaders_wall = 1'700'000'000 * second;

TimePoint at(std::int64_t ns) { return TimePoint(Duration(ns)); }

TEST(LeaderClock, IsUnknownBeforeAnAnswer) {
  LeaderClock clock;
  clock.on_answer(at(second), 5, 1);
  EXPECT_FALSE(clock.read(at(second))) << "the leader's wall clock is not known";
  clock.begin(leaders_wall);
  EXPECT_FALSE(clock.read(at(second))) << "that answer was another coordinator's";
  clock.on_answer(at(second), 5, 1);
  EXPECT_TRUE(clock.read(at(second)));
}

TEST(LeaderClock, TheLeaderReadItsClockHalfwayThere) {
  LeaderClock clock;
  clock.begin(leaders_wall);
  clock.on_answer(at(1000), 500'050, 800);
  // At 900 of this node's clock it was 500'050 at the leader, 100 earlier or later.
  EXPECT_EQ(clock.read(at(1000)), (SharedClock{leaders_wall, leaders_wall + 500'050 - 900, 100}));
}

TEST(LeaderClock, TheErrorBoundHoldsWhateverTheNetworkDoes) {
  std::mt19937 random(7);
  const auto delay = [&] {
    return static_cast<std::int64_t>(random() % 3 == 0 ? random() % second : random() % 100'000);
  };
  constexpr std::int64_t true_offset = -123 * second;  // the leader's clock minus this node's
  LeaderClock clock;
  clock.begin(leaders_wall);
  std::int64_t best_error = second;
  for (std::int64_t sent = second; sent < 500 * second; sent += second) {
    const std::int64_t stamped = sent + delay();
    const std::int64_t came = stamped + delay();
    clock.on_answer(at(came), stamped + true_offset, sent);
    const auto read = clock.read(at(came));
    ASSERT_TRUE(read);
    EXPECT_LE(std::abs(read->unix_minus_steady_ns - leaders_wall - true_offset), read->error_ns);
    best_error = std::min(best_error, read->error_ns);
  }
  EXPECT_LT(best_error, 100'000);
}

TEST(LeaderClock, AnOldReadingIsLessExact) {
  LeaderClock clock;
  clock.begin(leaders_wall);
  clock.on_answer(at(1000), 2000, 800);
  EXPECT_EQ(clock.read(at(1000) + seconds(1))->error_ns, 100 + second / LeaderClock::drift_divisor);
  // So a slower answer is better in the end.
  clock.on_answer(at(1000) + seconds(1), 2000 + second, 1000 + second - 2 * 150'000);
  EXPECT_EQ(clock.read(at(1000) + seconds(1))->error_ns, 150'000);
}

TEST(LeaderClock, AnotherLeaderHasAnotherClock) {
  LeaderClock clock;
  clock.begin(leaders_wall);
  clock.on_answer(at(1000), 2000, 800);
  clock.begin(leaders_wall);
  EXPECT_TRUE(clock.read(at(1000))) << "the same leader repeats its Welcome";
  clock.begin(leaders_wall + 1);
  EXPECT_FALSE(clock.read(at(1000)));
}

TEST(LeaderClock, WhatCannotBeIsIgnored) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  LeaderClock clock;
  clock.begin(leaders_wall);
  clock.on_answer(at(1000), 2000, 1001);  // it answers what has not been sent
  clock.on_answer(at(1000), 2000, 0);     // it answers nothing
  clock.on_answer(at(1000), most, 900);
  clock.on_answer(at(1000), least, 900);
  clock.on_answer(at(1000), 2000, least);
  EXPECT_FALSE(clock.read(at(1000)));
  clock.begin(most);
  clock.on_answer(at(1000), 2000, 900);
  EXPECT_FALSE(clock.read(at(1000)));
}

}  // namespace
}  // namespace dlaunch::agent
