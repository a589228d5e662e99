// When a member looks at its workers, and what it reports.
#include "agent/control/progress_reports.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class ProgressReportsTest : public ::testing::Test {
 protected:
  ProgressReportsTest() { reports_.begin_round(now_); }
  // The next look, in full if one is wanted.
  std::optional<Progress> look(std::uint64_t moves) {
    now_ = reports_.look_at().value();
    in_full_ = reports_.take_look(now_).value();
    WorkersSeen seen;
    seen.activity.moves = moves;
    if (in_full_) seen.group_progress.emplace();
    return reports_.take(now_, 3, seen);
  }

  TimePoint now_{seconds(100)};
  ProgressReports reports_{seconds(8)};
  bool in_full_ = false;
};

TEST_F(ProgressReportsTest, LooksComeInTheirPeriod) {
  EXPECT_EQ(reports_.look_at(), now_ + seconds(1));
  EXPECT_FALSE(reports_.take_look(now_));
  look(1);
  EXPECT_EQ(reports_.look_at(), now_ + seconds(1));
  reports_.end_round();
  EXPECT_FALSE(reports_.look_at());
}

TEST_F(ProgressReportsTest, StallIsReportedWithEachLookAndItsEndOnce) {
  EXPECT_FALSE(look(5));
  EXPECT_FALSE(look(5));
  EXPECT_FALSE(look(5)) << "the stall is a quarter of the limit now: the next look is a full one";
  const auto stalled = look(5);
  ASSERT_TRUE(stalled);
  EXPECT_TRUE(in_full_);
  EXPECT_EQ(stalled->round, 3U);
  EXPECT_EQ(stalled->quiet, seconds(3));
  EXPECT_TRUE(look(5));
  const auto moved = look(6);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->quiet, Duration(0));
  EXPECT_FALSE(look(6));
}

TEST_F(ProgressReportsTest, WorkersWithoutPagesAreIdleWhenTheyUseNothing) {
  const auto look_at = [&](std::uint64_t pages, std::optional<WorkerUsage> usage) {
    now_ = reports_.look_at().value();
    reports_.take_look(now_);
    WorkersSeen seen{{.pages = pages}, std::vector<GroupProgress>{}, std::move(usage)};
    return reports_.take(now_, 3, seen).value().idle;
  };
  const WorkerUsage used{{seconds(5)}, 0};
  EXPECT_EQ(look_at(0, used), Duration(0));
  EXPECT_EQ(look_at(0, used), seconds(1));
  EXPECT_EQ(look_at(0, used), seconds(2));
  EXPECT_EQ(look_at(1, used), Duration(0)) << "its page says more";
  EXPECT_EQ(look_at(0, std::nullopt), Duration(0)) << "nothing is known";
}

TEST_F(ProgressReportsTest, LastLookIsTakenOnceARound) {
  EXPECT_TRUE(reports_.take_last_look());
  EXPECT_FALSE(reports_.take_last_look());
  EXPECT_FALSE(reports_.look_at());
  WorkersSeen nothing;
  nothing.group_progress.emplace();
  EXPECT_FALSE(reports_.take(now_, 3, nothing)) << "there is nothing to add";
  WorkersSeen something = nothing;
  something.group_progress->emplace_back();
  EXPECT_FALSE(reports_.take(now_, 3, something)) << "ranks without a group explain nothing now";
  something.group_progress->back().identity = 5;
  EXPECT_TRUE(reports_.take(now_, 3, something));
  reports_.begin_round(now_);
  EXPECT_TRUE(reports_.take_last_look());
}

TEST_F(ProgressReportsTest, WithoutHangTimeoutThereAreNoLooks) {
  ProgressReports off{Duration(0)};
  off.begin_round(now_);
  EXPECT_FALSE(off.look_at());
  EXPECT_TRUE(off.take_last_look()) << "but the one when the round is stopped";
}

}  // namespace
}  // namespace dlaunch::agent
