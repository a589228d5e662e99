#include "agent/model/job_times.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two ranks; each step is at a second after the start, with what was seen of them since the last one.
class JobTimesTest : public ::testing::Test {
 protected:
  void step(int at_s, const char* state, const std::map<int, RankTimes>& latest = {}) {
    step(at_s, state, SeenOfRound{latest});
  }
  void step(int at_s, const char* state, const SeenOfRound& seen) {
    JobStatus status;
    status.state = state;
    status.round = round_;
    status.unnoticed_s = unnoticed_s_;
    times_.step(TimePoint(seconds(100 + at_s)), status, seen);
    EXPECT_EQ(sums().total(), 2 * sums().wall) << "the parts add up to ranks x time";
  }
  [[nodiscard]] const TimeSums& sums() const { return times_.sums(); }
  static RankTimes spent(Spent kind, int s, Spent other = Spent::starting, int other_s = 0) {
    RankTimes times;
    times[kind] = seconds(s);
    times[other] += seconds(other_s);
    return times;
  }

  double unnoticed_s_ = 0;
  int round_ = 0;
  JobTimes times_{2, TimePoint(seconds(100))};
};

TEST_F(JobTimesTest, OfARestart) {
  step(3, "waiting");
  step(5, "running");
  step(9, "running", {{0, spent(Spent::computing, 4)}, {1, spent(Spent::waiting, 3, Spent::starting, 1)}});
  step(10, "stopping", {{0, spent(Spent::computing, 1)}});
  step(12, "waiting");
  step(15, "running");
  step(17, "running", {{0, spent(Spent::starting, 2)}, {1, spent(Spent::starting, 1, Spent::operation, 1)}});
  step(18, "running", {{0, spent(Spent::operation, 1)}});
  step(20, "running", {{0, spent(Spent::operation, 2)}});
  step(21, "done");
  step(22, "ending");
  EXPECT_EQ(sums()[TimeKind::assembling], seconds(10));
  EXPECT_EQ(sums()[TimeKind::computing], seconds(5));
  EXPECT_EQ(sums()[TimeKind::waiting], milliseconds(3750)) << "rank 1 ended as it had run before";
  EXPECT_EQ(sums()[TimeKind::starting], milliseconds(4750))
      << "of rank 1 its last second of each round as before";
  EXPECT_EQ(sums()[TimeKind::stopping], seconds(4));
  EXPECT_EQ(sums()[TimeKind::deciding], seconds(6));
  EXPECT_EQ(sums()[TimeKind::ended], seconds(3)) << "rank 1 had returned";
  EXPECT_EQ(sums()[TimeKind::done], seconds(2));
  ASSERT_EQ(times_.restarts().size(), 1U);
  EXPECT_EQ(times_.restarts()[0].stopping, seconds(2));
  EXPECT_EQ(times_.restarts()[0].deciding, seconds(3));
}

TEST_F(JobTimesTest, EachPartOfARestart) {
  step(1, "running");
  unnoticed_s_ = 2.5;
  step(9, "stopping");
  step(11, "waiting");
  step(12, "running");
  step(14, "running",
       SeenOfRound{
           {{0, spent(Spent::starting, 2)}, {1, spent(Spent::starting, 2)}}, {}, {}, seconds(1), seconds(1)});
  step(15, "running",
       SeenOfRound{{{0, spent(Spent::computing, 1)}, {1, spent(Spent::computing, 1)}},
                   {},
                   {},
                   seconds(1),
                   milliseconds(1500)});
  ASSERT_EQ(times_.restarts().size(), 1U);
  EXPECT_EQ(times_.restarts()[0],
            (RestartTimes{milliseconds(2500), seconds(2), seconds(1), seconds(1), milliseconds(1500)}));
}

TEST_F(JobTimesTest, ARoundThatEndsByItselfIsARestartToo) {
  step(1, "running");
  step(3, "running", {{0, spent(Spent::computing, 2)}, {1, spent(Spent::computing, 2)}});
  round_ = 1;
  step(4, "running");
  ASSERT_EQ(times_.restarts().size(), 1U);
  EXPECT_EQ(times_.restarts()[0], RestartTimes{});
  EXPECT_EQ(sums()[TimeKind::computing], seconds(6)) << "as before";
}

TEST_F(JobTimesTest, WhatTurnsOutToBeAStartIsMoved) {
  step(1, "running");
  step(3, "running", {{0, spent(Spent::unrecorded, 2)}, {1, spent(Spent::unrecorded, 2)}});
  EXPECT_EQ(sums()[TimeKind::unrecorded], seconds(4));
  step(4, "running",
       SeenOfRound{{{0, spent(Spent::starting, 1)}, {1, spent(Spent::unrecorded, 1)}}, {}, seconds(2)});
  EXPECT_EQ(sums()[TimeKind::unrecorded], seconds(3));
  EXPECT_EQ(sums()[TimeKind::starting], seconds(3));
}

TEST_F(JobTimesTest, TheLastTimeOfARankCountsOnce) {
  step(1, "running");
  step(3, "running",
       SeenOfRound{{{0, spent(Spent::computing, 2)}, {1, spent(Spent::computing, 1, Spent::operation, 1)}},
                   {1}});
  step(5, "running", {{0, spent(Spent::computing, 2)}});
  EXPECT_EQ(sums()[TimeKind::computing], seconds(5));
  EXPECT_EQ(sums()[TimeKind::operation], seconds(1));
  EXPECT_EQ(sums()[TimeKind::ended], seconds(2));
}

TEST_F(JobTimesTest, SumsOfNodesAddUp) {
  step(1, "running");
  step(3, "running", {{0, spent(Spent::computing, 2)}, {1, spent(Spent::waiting, 2)}});
  TimeSums all = sums();
  TimeSums other = sums();
  other.wall = seconds(9);
  all += other;
  EXPECT_EQ(all.ranks, 4);
  EXPECT_EQ(all.wall, seconds(9));
  EXPECT_EQ(all[TimeKind::computing], seconds(4));
  EXPECT_DOUBLE_EQ(all.goodput(), sums().goodput());
}

TEST_F(JobTimesTest, ARoundThatEndedBeforeTheFirstLookWasStarting) {
  step(1, "running");
  step(3, "stopping");
  EXPECT_EQ(sums()[TimeKind::starting], seconds(4));
  EXPECT_EQ(sums().goodput(), 0);
}

TEST_F(JobTimesTest, GoodputIsTheShareOfComputingAndOperations) {
  step(5, "running");
  step(10, "running", {{0, spent(Spent::computing, 5)}, {1, spent(Spent::waiting, 5)}});
  EXPECT_DOUBLE_EQ(sums().goodput(), 0.25);
}

TEST_F(JobTimesTest, PartsThatDoNotFillTheTimeAreScaled) {
  step(0, "running");
  step(4, "running", {{0, spent(Spent::computing, 3, Spent::operation, 3)}, {1, spent(Spent::stopped, 1)}});
  EXPECT_EQ(sums()[TimeKind::computing], seconds(2));
  EXPECT_EQ(sums()[TimeKind::stopped], seconds(4));
}

TEST_F(JobTimesTest, TheListOfRestartsIsBounded) {
  for (int i = 0; i < 100; ++i) {
    step(2 * i, "running");
    step(2 * i + 1, "stopping");
  }
  EXPECT_EQ(times_.restarts().size(), JobTimes::most_restarts);
  EXPECT_EQ(times_.restarts().back().stopping, seconds(1));
}

}  // namespace
}  // namespace dlaunch::agent
