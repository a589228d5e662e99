#include "agent/model/rank_times.h"

#include <gtest/gtest.h>

#include "tests/agent/model/made_page.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two ranks of a group. The round begins at second 10; times of operations are milliseconds since then.
class RankTimesTest : public ::testing::Test {
 protected:
  RankTimesTest() {
    for (int rank = 0; rank < 2; ++rank) pages_.emplace_back(rank, 2).add_group(1, "default");
    times_.begin_round(began_);
  }
  page::Record& enter(std::size_t rank, std::uint64_t sequence, std::int64_t at_ms,
                      page::Operation operation = page::Operation::all_reduce) {
    return pages_[rank].enter(1, operation, sequence, ns(at_ms));
  }
  void end(std::size_t rank, page::Record& record, std::int64_t at_ms) {
    pages_[rank].end(record, ns(at_ms));
  }
  static std::int64_t ns(std::int64_t at_ms) { return (10'000 + at_ms) * ms; }

  void look(std::int64_t at_ms, Condition of_second = Condition::runs, bool has_pages = true) {
    std::vector<WorkerLook> workers;
    for (std::size_t i = 0; i < pages_.size(); ++i) {
      WorkerLook worker{static_cast<int>(i), static_cast<int>(i), 100 + static_cast<int>(i)};
      if (i == 1) worker.condition = of_second;
      if (has_pages) worker.record = parse_worker_page(pages_[i].bytes(), pages_[i].bytes());
      workers.push_back(worker);
    }
    times_.look(began_ + milliseconds(at_ms), workers);
  }
  [[nodiscard]] std::int64_t spent(int rank, Spent kind) const {
    return to_millis(times_.of_round().at(rank)[kind]);
  }

  const TimePoint began_{seconds(10)};
  std::vector<MadePage> pages_;
  TimesOfRanks times_;
};

TEST_F(RankTimesTest, TheTimeUntilTheFirstOperationIsTheStart) {
  look(1000, Condition::runs, false);
  EXPECT_EQ(spent(0, Spent::unrecorded), 1000) << "the program may not use libdlaunch";
  look(2000);
  EXPECT_EQ(spent(0, Spent::starting), 2000) << "it has a page: now it is known what the first second was";
  EXPECT_EQ(times_.seen().recognized_start, milliseconds(2000)) << "of both ranks";
  end(0, enter(0, 1, 2500), 2600);
  look(3000);
  EXPECT_EQ(spent(0, Spent::starting), 2500);
  EXPECT_EQ(times_.seen().recognized_start, milliseconds(0));
  EXPECT_EQ(spent(0, Spent::unrecorded), 0);
  EXPECT_EQ(spent(0, Spent::operation), 100);
  EXPECT_EQ(spent(0, Spent::computing), 400);
  EXPECT_EQ(spent(1, Spent::starting), 3000);
  EXPECT_EQ(times_.of_round().at(0).total(), seconds(3));
  EXPECT_EQ(times_.latest().at(0).total(), seconds(1));
}

TEST_F(RankTimesTest, WaitingIsTheTimeUntilTheLastRankHasCome) {
  page::Record& early = enter(0, 1, 100);
  page::Record& late = enter(1, 1, 700);
  end(0, early, 800);
  end(1, late, 800);
  look(1000);
  EXPECT_EQ(spent(0, Spent::waiting), 600);
  EXPECT_EQ(spent(0, Spent::operation), 100);
  EXPECT_EQ(spent(1, Spent::waiting), 0);
  EXPECT_EQ(spent(1, Spent::operation), 100);
  EXPECT_EQ(spent(1, Spent::starting), 700);
  EXPECT_EQ(times_.latest().at(0).longest(), Spent::waiting);
}

TEST_F(RankTimesTest, ARankThatNeverComesIsWaitedForInEveryLook) {
  end(0, enter(0, 1, 0), 1);
  end(1, enter(1, 1, 0), 1);
  enter(0, 2, 1000);
  look(2000);
  look(3000);
  EXPECT_EQ(times_.latest().at(0)[Spent::waiting], seconds(1));
  EXPECT_EQ(times_.latest().at(1)[Spent::computing], seconds(1));
  EXPECT_EQ(spent(0, Spent::waiting), 2000);
}

TEST_F(RankTimesTest, ACollectiveToWhichAllHaveComeIsNoWait) {
  enter(0, 1, 0);
  enter(1, 1, 0);
  look(1000);
  EXPECT_EQ(spent(0, Spent::operation), 1000);
  EXPECT_EQ(spent(0, Spent::waiting), 0);
}

TEST_F(RankTimesTest, OperationsAtTheSameTimeCountOnce) {
  end(0, enter(0, 1, 0), 600);
  end(0, enter(0, 1, 200, page::Operation::send), 500);
  end(0, enter(0, 2, 300, page::Operation::send), 800);
  look(1000);
  EXPECT_EQ(spent(0, Spent::operation) + spent(0, Spent::waiting), 800);
  EXPECT_EQ(spent(0, Spent::computing), 200);
}

TEST_F(RankTimesTest, AStoppedRankIsStopped) {
  end(1, enter(1, 1, 0), 10);
  look(1000, Condition::stopped);
  EXPECT_EQ(spent(1, Spent::stopped), 1000);
  look(2000, Condition::ended);
  EXPECT_EQ(spent(1, Spent::computing), 1000) << "it ended somewhere in this time";
  EXPECT_EQ(times_.seen().ended, std::set<int>{1});
  look(3000, Condition::ended);
  EXPECT_EQ(times_.of_round().at(1).total(), seconds(2)) << "after its end there is no time of it";
  EXPECT_FALSE(times_.latest().contains(1));
  EXPECT_TRUE(times_.seen().ended.empty());
}

TEST_F(RankTimesTest, WhatTheRingNoLongerHasIsLikeWhatItHas) {
  for (std::size_t i = 0; i < 2 * page::max_records; ++i) {  // half of the time in a message
    const auto at = static_cast<std::int64_t>(i);
    pages_[0].end(pages_[0].enter(1, page::Operation::send, i + 1, ns(0) + at * ms),
                  ns(0) + at * ms + ms / 2);
  }
  look(2 * static_cast<std::int64_t>(page::max_records));
  const RankTimes& times = times_.of_round().at(0);
  EXPECT_NEAR(to_seconds(times[Spent::operation]), to_seconds(times[Spent::computing]), 0.01);
}

TEST_F(RankTimesTest, TheStartEndsWithTheFirstOperationAlsoIfTheRingNoLongerHasIt) {
  constexpr std::int64_t first_at = 300;
  pages_[0].raw().header.joined_ns = ns(100);
  for (std::size_t i = 0; i < 2 * page::max_records; ++i) {
    const std::int64_t at = ns(first_at) + static_cast<std::int64_t>(i) * ms;
    pages_[0].end(pages_[0].enter(1, page::Operation::send, i + 1, at), at + ms / 2);
  }
  look(first_at + 2 * static_cast<std::int64_t>(page::max_records));
  EXPECT_EQ(spent(0, Spent::starting), first_at);
}

TEST_F(RankTimesTest, TheStartHasTwoParts) {
  look(1000, Condition::runs, false);
  EXPECT_EQ(times_.seen().mean_start, milliseconds(0)) << "no rank records";
  pages_[0].raw().header.joined_ns = ns(1200);
  pages_[1].raw().header.joined_ns = ns(1400);
  look(2000);
  EXPECT_EQ(times_.seen().mean_start, milliseconds(1300));
  EXPECT_EQ(times_.seen().mean_until_first, milliseconds(700)) << "until now";
  enter(0, 1, 2100);
  enter(1, 1, 2500);
  look(4000);
  look(5000);
  EXPECT_EQ(times_.seen().mean_start, milliseconds(1300));
  EXPECT_EQ(times_.seen().mean_until_first, milliseconds(1000));
}

TEST_F(RankTimesTest, AShortRoundHasAStartToo) {
  for (std::size_t rank = 0; rank < 2; ++rank) {
    pages_[rank].raw().header.joined_ns = ns(100);
    end(rank, enter(rank, 1, 300), 400);
  }
  look(1000, Condition::ended);
  EXPECT_EQ(times_.seen().mean_start, milliseconds(100)) << "of the one that has ended, too";
  EXPECT_EQ(times_.seen().mean_until_first, milliseconds(200));
  EXPECT_EQ(spent(1, Spent::starting), 300);
  EXPECT_EQ(times_.of_round().at(1).total(), seconds(1));
}

TEST_F(RankTimesTest, ARankThatRecordsNothingHasNoTimeOnceItHasEnded) {
  look(1000, Condition::runs, false);
  look(2000, Condition::ended, false);
  EXPECT_EQ(spent(1, Spent::unrecorded), 1000);
  EXPECT_TRUE(times_.seen().ended.empty());
}

TEST_F(RankTimesTest, ARoundBeginsAnew) {
  look(1000);
  times_.begin_round(began_ + seconds(5));
  EXPECT_TRUE(times_.of_round().empty());
  look(6000);
  EXPECT_EQ(times_.of_round().at(0).total(), seconds(1));
}

}  // namespace
}  // namespace dlaunch::agent
