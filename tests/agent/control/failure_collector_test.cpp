// Which of a round's failures ends it.
#include "agent/control/failure_collector.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class FailureCollectorTest : public ::testing::Test {
 protected:
  FailureCollectorTest() {
    world_.members = {{0, 2, 0, "a", 100, 0, 0}, {1, 2, 2, "b", 101, 1, 2}};
    for (int i = 0; i < 2; ++i) {
      Membership::Node& node = here_.add(static_cast<MemberId>(i), Join{}, "", now_);
      node.index = i;
      node.stopped = false;
    }
  }
  static Failure of_rank(int rank) {
    Failure failure;
    failure.kind = FailureKind::worker;
    failure.rank = rank;
    failure.status = {ExitStatus::How::exited, 3, false};
    return failure;
  }
  const Failure& cause() { return failures_.find_cause(workers_, world_).failure; }

  TimePoint now_{seconds(100)};
  World world_;
  Membership here_;
  HangDetector workers_{Duration(0)};
  FailureCollector failures_;
};

TEST_F(FailureCollectorTest, CauseIsTheFirstThatHappened) {
  failures_.record(now_ + seconds(1), of_rank(1));
  failures_.record(now_, of_rank(3));
  EXPECT_EQ(failures_.first().rank, 1);
  EXPECT_EQ(cause().rank, 3);
}

TEST_F(FailureCollectorTest, FinalFailureIsTheCauseWheneverItHappened) {
  failures_.record(now_, of_rank(1));
  Failure lost;
  lost.kind = FailureKind::node_lost;
  failures_.record(now_ + seconds(5), lost);
  EXPECT_FALSE(failures_.ends_job());
  failures_.end_job_by_last();
  EXPECT_TRUE(failures_.ends_job());
  EXPECT_EQ(cause().kind, FailureKind::node_lost);
}

TEST_F(FailureCollectorTest, EachRankFailsOnceInARound) {
  EXPECT_TRUE(failures_.add_rank(1));
  EXPECT_FALSE(failures_.add_rank(1));
  failures_.begin();
  EXPECT_TRUE(failures_.add_rank(1));
}

TEST_F(FailureCollectorTest, BlamedRankMayEndByItselfWhileItRuns) {
  EXPECT_TRUE(failures_.may_still_end(3, here_, world_));
  EXPECT_FALSE(failures_.may_still_end(4, here_, world_)) << "there is no such rank";
  EXPECT_TRUE(failures_.may_still_end(-1, here_, world_)) << "it may be any";
  here_.find(1)->stopped = true;
  EXPECT_FALSE(failures_.may_still_end(3, here_, world_));
  failures_.add_rank(0);
  EXPECT_FALSE(failures_.may_still_end(0, here_, world_)) << "it has failed";
  EXPECT_TRUE(failures_.may_still_end(1, here_, world_));
}

TEST_F(FailureCollectorTest, FirstBlameSetsTheGrace) {
  EXPECT_FALSE(failures_.awaits_until());
  failures_.await_blamed_rank(now_);
  failures_.await_blamed_rank(now_ + seconds(1));
  EXPECT_EQ(failures_.awaits_until(), now_);
  failures_.stop_awaiting();
  EXPECT_FALSE(failures_.awaits_until());
}

TEST_F(FailureCollectorTest, BlamedRankThatReturnedZeroIsTheCause) {
  Failure victim = of_rank(0);
  victim.blames_peer = true;
  victim.blamed_rank = 3;
  victim.blamed_for = "left the group";
  failures_.record(now_, victim);
  workers_.note_end(3, "returned 0");
  EXPECT_EQ(cause().kind, FailureKind::left);
  EXPECT_EQ(cause().rank, 3);
  EXPECT_EQ(cause().host, "b");
}

TEST_F(FailureCollectorTest, LongTextsOfThousandsAreNotKept) {
  Failure failure = of_rank(0);
  failure.traceback = "a long text";
  for (std::size_t i = 0; i <= FailureCollector::most_in_full; ++i)
    failures_.record(now_ - milliseconds(i * 1000), failure);
  EXPECT_EQ(failures_.first().traceback, "a long text");
  EXPECT_EQ(cause().traceback, "") << "the first that happened was the last that was reported";
}

TEST_F(FailureCollectorTest, OutcomeNamesAllAndForgetsThem) {
  failures_.record(now_, of_rank(1));
  failures_.record(now_ + seconds(1), of_rank(2));
  const Outcome outcome = failures_.take_outcome(workers_, world_);
  EXPECT_TRUE(outcome.failed);
  EXPECT_EQ(outcome.cause.rank, 1);
  EXPECT_EQ(outcome.failure_count, 2);
  ASSERT_EQ(outcome.others.size(), 1U);
  EXPECT_EQ(outcome.others[0].rank, 2);
  EXPECT_TRUE(failures_.empty());
}

}  // namespace
}  // namespace dlaunch::agent
