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
    JobStatus status;
    status.state = state;
    times_.step(TimePoint(seconds(100 + at_s)), status, latest);
    EXPECT_EQ(times_.total(), 2 * times_.wall()) << "the parts add up to ranks x time";
  }
  static RankTimes spent(Spent kind, int s, Spent other = Spent::starting, int other_s = 0) {
    RankTimes times;
    times[kind] = seconds(s);
    times[other] += seconds(other_s);
    return times;
  }

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
  EXPECT_EQ(times_.assembling(), seconds(10));
  EXPECT_EQ(times_.running()[Spent::computing], seconds(5));
  EXPECT_EQ(times_.running()[Spent::waiting], milliseconds(3750)) << "rank 1 ended as it had run before";
  EXPECT_EQ(times_.running()[Spent::starting], milliseconds(4750))
      << "of rank 1 its last second of each round as before";
  EXPECT_EQ(times_.stopping(), seconds(4));
  EXPECT_EQ(times_.deciding(), seconds(6));
  EXPECT_EQ(times_.ended(), seconds(3)) << "rank 1 had returned";
  EXPECT_EQ(times_.done(), seconds(2));
  ASSERT_EQ(times_.restarts().size(), 1U);
  EXPECT_EQ(times_.restarts()[0].stopping, seconds(2));
  EXPECT_EQ(times_.restarts()[0].deciding, seconds(3));
  EXPECT_EQ(times_.restarts()[0].starting, milliseconds(1750)) << "one rank 2 s, the other 1.5 s";
}

TEST_F(JobTimesTest, ARoundThatEndedBeforeTheFirstLookWasStarting) {
  step(1, "running");
  step(3, "stopping");
  EXPECT_EQ(times_.running()[Spent::starting], seconds(4));
  EXPECT_EQ(times_.goodput(), 0);
}

TEST_F(JobTimesTest, GoodputIsTheShareOfComputingAndOperations) {
  step(5, "running");
  step(10, "running", {{0, spent(Spent::computing, 5)}, {1, spent(Spent::waiting, 5)}});
  EXPECT_DOUBLE_EQ(times_.goodput(), 0.25);
}

TEST_F(JobTimesTest, PartsThatDoNotFillTheTimeAreScaled) {
  step(0, "running");
  step(4, "running", {{0, spent(Spent::computing, 3, Spent::operation, 3)}, {1, spent(Spent::stopped, 1)}});
  EXPECT_EQ(times_.running()[Spent::computing], seconds(2));
  EXPECT_EQ(times_.running()[Spent::stopped], seconds(4));
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
