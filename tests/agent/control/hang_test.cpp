// For how long nothing has moved on a node, and when that is a hang.
#include <gtest/gtest.h>

#include "agent/control/hang_judge.h"
#include "agent/control/quiet_watch.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class QuietWatchTest : public ::testing::Test {
 protected:
  QuietWatchTest() { watch_.begin(now_); }
  Duration look(std::uint64_t moves, std::uint64_t open = 0) {
    now_ += watch_.period();
    return watch_.see(now_, {moves, open, asks_});
  }
  Duration ask() {
    ++asks_;
    return look(0);
  }
  QuietWatch watch_{seconds(8)};
  TimePoint now_{seconds(100)};
  std::uint64_t asks_ = 0;
};

TEST_F(QuietWatchTest, CountsFromTheLastMove) {
  EXPECT_EQ(watch_.period(), seconds(1));
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
  EXPECT_EQ(look(5), seconds(2));
  EXPECT_EQ(look(6), Duration(0));
  EXPECT_EQ(look(6), seconds(1));
}

TEST_F(QuietWatchTest, WhereNothingEverMovesItCountsFromTheBeginning) {
  EXPECT_EQ(look(0), seconds(1));
  EXPECT_EQ(look(0), seconds(2));
  watch_.begin(now_);
  EXPECT_EQ(look(0), seconds(1));
}

TEST_F(QuietWatchTest, ALookThatComesLateProvesNothing) {
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
  now_ += seconds(60);  // the job was suspended, its workers with it
  EXPECT_EQ(look(5), Duration(0));
  EXPECT_EQ(look(5), seconds(1));
}

TEST_F(QuietWatchTest, WhoAsksForTheWholeLimitWaits) {
  ask();
  for (int i = 0; i < 7; ++i) {
    EXPECT_FALSE(watch_.saw_long_asking());
    EXPECT_EQ(ask(), seconds(i + 2)) << "it is no move";
  }
  ask();
  EXPECT_TRUE(watch_.saw_long_asking());
  for (int i = 0; i < 4; ++i) look(0);
  EXPECT_TRUE(watch_.saw_long_asking());
  look(0);
  EXPECT_FALSE(watch_.saw_long_asking());
}

TEST_F(QuietWatchTest, WhoAsksNowAndThenWorks) {
  for (int step = 0; step < 20; ++step) {
    ask();
    for (int i = 0; i < 4; ++i) look(0);
    EXPECT_FALSE(watch_.saw_long_asking());
  }
}

TEST_F(QuietWatchTest, LooksOftenEnoughAndNotTooOften) {
  EXPECT_EQ(QuietWatch(seconds(3600)).period(), seconds(1));
  EXPECT_EQ(QuietWatch(milliseconds(400)).period(), milliseconds(50));
  EXPECT_EQ(QuietWatch(milliseconds(1)).period(), milliseconds(10));
  EXPECT_FALSE(QuietWatch(Duration(0)).is_on());
}

class HangJudgeTest : public ::testing::Test {
 protected:
  HangJudgeTest() {
    for (MemberId member : {0U, 1U}) {
      Join join;
      join.slots = 2;
      join.host = "host" + std::to_string(member);
      Roster::Node& node = roster_.add(member, join, "", TimePoint(seconds(1)));
      node.active = true;
    }
    world_.round = 3;
    world_.members = {{0, 2, 0, "host0", 7, 0}, {1, 2, 2, "host1", 8, 1}};
  }
  void told(MemberId member, Duration quiet, bool inside, std::vector<GroupStanding> groups = {}) {
    judge_.take(member, {3, quiet, inside, std::move(groups)});
  }
  Roster roster_;
  World world_;
  HangJudge judge_{seconds(10)};
};

TEST_F(HangJudgeTest, NothingMovesAnywhereAndOneWaits) {
  told(0, seconds(10), true);
  EXPECT_FALSE(judge_.hangs(roster_)) << "the other node has not said that nothing moves there";
  told(1, seconds(9), false);
  EXPECT_FALSE(judge_.hangs(roster_));
  told(1, seconds(10), false);
  EXPECT_TRUE(judge_.hangs(roster_));
}

TEST_F(HangJudgeTest, WhoComputesForLongDoesNotHang) {
  told(0, seconds(1000), false);
  told(1, seconds(1000), false);
  EXPECT_FALSE(judge_.hangs(roster_));
}

TEST_F(HangJudgeTest, WhatMovesAgainDoesNotHang) {
  told(0, seconds(20), true);
  told(1, Duration(0), true);
  EXPECT_FALSE(judge_.hangs(roster_));
}

TEST_F(HangJudgeTest, NodesThatAreDoneOrSpareAreNotAsked) {
  told(0, seconds(20), true);
  roster_.find(1)->done = true;
  EXPECT_TRUE(judge_.hangs(roster_));
  roster_.find(1)->done = false;
  EXPECT_FALSE(judge_.hangs(roster_));
  roster_.find(1)->active = false;
  EXPECT_TRUE(judge_.hangs(roster_));
}

TEST_F(HangJudgeTest, ANewRoundForgetsAndWithoutALimitNothingHangs) {
  told(0, seconds(20), true);
  told(1, seconds(20), true);
  EXPECT_TRUE(judge_.hangs(roster_));
  judge_.begin();
  EXPECT_FALSE(judge_.hangs(roster_));
  HangJudge off{Duration(0)};
  off.take(0, {3, seconds(20), true, {}});
  off.take(1, {3, seconds(20), true, {}});
  EXPECT_FALSE(off.hangs(roster_));
}

TEST_F(HangJudgeTest, TheRankThatNeverCameIsTheCause) {
  RankStanding waits;
  waits.entered = 2;
  waits.done = 1;
  waits.inside = true;
  waits.operation = page::Operation::barrier;
  waits.waited = seconds(11);
  RankStanding missing;
  missing.rank = 3;
  missing.entered = missing.done = 1;
  told(0, seconds(10), true, {{1, "default", 2, {{0, 3, 2}}, {waits}}});
  told(1, seconds(10), false, {{1, "default", 2, {{0, 3, 2}}, {missing}}});
  const Failure failure = judge_.failure(judge_.diagnosis(), world_);
  EXPECT_EQ(failure.kind, FailureKind::hang);
  EXPECT_EQ(failure.round, 3U);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.local_rank, 1);
  EXPECT_EQ(failure.node_rank, 1);
  EXPECT_EQ(failure.host, "host1");
  EXPECT_EQ(describe(failure),
            "nothing has moved for 10 s (--hang-timeout): rank 3 never entered barrier #2 of group default; "
            "the other one has "
            "waited 11 s; rank 3 (local rank 1, node 1, host host1)");
  EXPECT_EQ(exit_code_of(failure), 1);
}

TEST_F(HangJudgeTest, WithoutACulpritNobodyIsBlamed) {
  told(0, seconds(10), true);
  told(1, seconds(10), true);
  const Failure failure = judge_.failure(judge_.diagnosis(), world_);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.host, "");
  EXPECT_EQ(describe(failure),
            "nothing has moved for 10 s (--hang-timeout): a rank waits for a message or for other ranks");
}

// By the first and the last rank of each node.
TEST_F(HangJudgeTest, TheNodeOfTheCulpritIsFound) {
  const auto place_of = [this](int rank) {
    Diagnosis diagnosis;
    diagnosis.missing = {rank};
    const Failure failure = judge_.failure(diagnosis, world_);
    return std::array{failure.node_rank, failure.local_rank};
  };
  EXPECT_EQ(place_of(0), (std::array{0, 0}));
  EXPECT_EQ(place_of(1), (std::array{0, 1}));
  EXPECT_EQ(place_of(2), (std::array{1, 0}));
  EXPECT_EQ(place_of(3), (std::array{1, 1}));
  EXPECT_EQ(place_of(4), place_of(-1)) << "no rank of this world";
  std::swap(world_.members[0], world_.members[1]);
  EXPECT_EQ(place_of(1), (std::array{0, 1}));
  EXPECT_EQ(place_of(2), (std::array{1, 0}));
}

}  // namespace
}  // namespace dlaunch::agent
