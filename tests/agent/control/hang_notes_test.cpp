#include "agent/control/hang_notes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dlaunch::agent {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

// The lengths at which a stall that is looked at every second until `end` is reported.
std::vector<Duration> reported(HangNotes& notes, Duration end) {
  std::vector<Duration> at;
  for (Duration stall = seconds(1); stall <= end; stall += seconds(1)) {
    if (notes.take(stall)) at.push_back(stall);
  }
  return at;
}

using Times = std::vector<Duration>;

TEST(HangNotes, ComeAfterOneFiveAndFifteenTimesAndThenEveryThirty) {
  HangNotes notes(seconds(60));
  EXPECT_EQ(reported(notes, minutes(70)),
            (Times{minutes(1), minutes(5), minutes(15), minutes(30), minutes(60)}));
}

TEST(HangNotes, ALateLookIsReportedOnce) {
  HangNotes notes(seconds(60));
  EXPECT_TRUE(notes.take(minutes(7)));
  EXPECT_FALSE(notes.take(minutes(8)));
  EXPECT_TRUE(notes.take(minutes(15)));
}

TEST(HangNotes, ZeroMeansNever) {
  HangNotes notes(Duration(0));
  EXPECT_FALSE(notes.take(minutes(1000)));
}

TEST(HangNotes, AStallLikeOneThatEndedByItselfIsNotReportedAgain) {
  HangNotes notes(seconds(60));
  EXPECT_EQ(reported(notes, seconds(90)), Times{seconds(60)}) << "an evaluation";
  EXPECT_FALSE(notes.take(Duration(0)));
  EXPECT_EQ(reported(notes, seconds(170)), Times{}) << "the next one";
  EXPECT_FALSE(notes.take(Duration(0)));
  EXPECT_EQ(reported(notes, minutes(6)), (Times{seconds(180), minutes(5)}));
  notes.begin();
  EXPECT_EQ(reported(notes, seconds(61)), Times{seconds(60)}) << "another round";
}

// Whatever a job does, its last stall is reported if it lasts, and the notes are few.
TEST(HangNotes, NoHangIsMissedAndNoJobIsFlooded) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    HangNotes notes(seconds(60));
    Duration longest{};
    std::size_t said = 0;
    for (int i = 0; i < 50; ++i) {
      const Duration stall = seconds(random() % 200);
      longest = std::max(longest, stall);
      said += reported(notes, stall).size();
      EXPECT_FALSE(notes.take(Duration(0)));
    }
    EXPECT_LE(said, 2U) << "seed " << seed << ": 60, and from twice the first one on";
    const Times last = reported(notes, minutes(100));
    ASSERT_FALSE(last.empty()) << "seed " << seed;
    EXPECT_LE(last.front(), std::max<Duration>(seconds(60), 2 * longest)) << "seed " << seed;
    EXPECT_LE(last.size(), 6U);
  }
}

}  // namespace
}  // namespace dlaunch::agent
