// How the job ends, and which failure is named as its cause.

#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(CoordinatorTest, WithoutRestartsLeftTheFirstFailureEndsTheJob) {
  gather();
  from(7, failed(0, 3));
  from(0, Stopped{0});
  from(7, Stopped{0});
  from(0, failed(1, 0));
  EXPECT_EQ(sent<StopRound>().size(), 2U);
  from(0, Stopped{1});
  EXPECT_TRUE(sent<End>().empty()) << "node 1 may know of an earlier one";
  from(7, Stopped{1});
  const auto ends = sent<End>();
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].second.outcome.exit_code, 3);
  EXPECT_EQ(ends[0].second.outcome.cause.rank, 0);
  EXPECT_TRUE(ends[0].second.outcome.others.empty());
  EXPECT_FALSE(did<CoordinatorEnded>()) << "node 1 may not have heard the end yet";
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::broken, "closed"}});
  EXPECT_TRUE(did<CoordinatorEnded>());
}

TEST_F(CoordinatorTest, CauseIsTheFirstFailureInTimeNotTheFirstReported) {
  job_.max_restarts = 0;
  gather();
  now_ += seconds(5);
  from(7, failed(0, 3, milliseconds(10)));
  now_ += milliseconds(200);
  Failed early = failed(0, 0, milliseconds(900));
  early.failure.status.number = 9;
  from(0, early);
  from(0, failed(0, 1, milliseconds(50)));
  from(7, failed(0, 3, milliseconds(400)));  // told twice
  from(0, Stopped{0});
  from(7, Stopped{0});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.rank, 0);
  EXPECT_EQ(outcome.exit_code, 9);
  EXPECT_EQ(outcome.failure_count, 3);
  ASSERT_EQ(outcome.others.size(), 2U);
  EXPECT_EQ(outcome.others[0].rank, 3);
  EXPECT_EQ(outcome.others[0].after, milliseconds(690));
  EXPECT_EQ(outcome.others[1].rank, 1);
  EXPECT_EQ(outcome.tallies, (std::vector<Tally>{{"exited with code 3", 2}}));
}

TEST_F(CoordinatorTest, TheRankThatCallsSomethingElseIsTheCauseThoughItReportsLast) {
  job_.max_restarts = 0;
  gather();
  const auto noticed = [&](int rank, const std::string& own, int peer, const std::string& others) {
    Failed one = failed(0, rank);
    one.failure.tail = "t: rank " + std::to_string(rank) + ", barrier #5 of group default, peer " +
                       std::to_string(peer) + " on b: the ranks call different operations: rank " +
                       std::to_string(peer) + " calls " + others + ", this rank " + own;
    one.failure.blames_peer = true;
    return one;
  };
  from(0, noticed(0, "A", 3, "B"));
  from(0, noticed(1, "A", 3, "B"));
  from(7, noticed(3, "B", 1, "A"));
  from(0, Stopped{0});
  from(7, Stopped{0});
  const Failure cause = ending().cause;
  EXPECT_EQ(cause.rank, 3);
  EXPECT_EQ(cause.hint,
            "the ranks call different operations at #5 of group default: rank 3 calls B; ranks 0, 1 call A");
  EXPECT_TRUE(cause.remedy.starts_with("find what makes rank 3 differ"));
}

TEST_F(CoordinatorTest, AmongSimultaneousFailuresOneThatBlamesAPeerIsNotTheCause) {
  job_.max_restarts = 0;
  gather();
  Failed victim = failed(0, 0);
  victim.failure.blames_peer = true;
  from(0, victim);
  now_ += milliseconds(40);
  from(7, failed(0, 3));
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 3);
}

TEST_F(CoordinatorTest, ASuspectIsNamedBesideTheCauseAndIsNoFailure) {
  job_.max_restarts = 0;
  gather();
  Failed victim = failed(0, 0);
  victim.failure.blames_peer = true;
  Failed suspect = failed(0, 1);
  suspect.failure.while_stopping = suspect.failure.ended_by_us = true;
  suspect.failure.exception = "IndexError: x";
  from(0, victim);
  from(0, suspect);
  from(0, Stopped{0});
  from(7, Stopped{0});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.rank, 0);
  EXPECT_EQ(outcome.cause.hint, "rank 1, which was then stopped, had written: IndexError: x");
  EXPECT_EQ(outcome.failure_count, 1);
  EXPECT_TRUE(outcome.others.empty());
}

TEST_F(CoordinatorTest, EarlyFailureThatBlamesAPeerIsTheCause) {
  job_.max_restarts = 0;
  gather();
  now_ += seconds(5);
  Failed first = failed(0, 0, milliseconds(500));
  first.failure.blames_peer = true;
  from(7, failed(0, 3));
  from(0, first);
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 0);
}

TEST_F(CoordinatorTest, FailureDuringStopIsNeverTheCause) {
  job_.max_restarts = 0;
  gather();
  Failed stopped = failed(0, 0, seconds(2));
  stopped.failure.while_stopping = true;
  from(7, failed(0, 3));
  from(0, stopped);
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 3);
}

TEST_F(CoordinatorTest, AnAgeBeforeTheRoundIsNotBelieved) {
  job_.max_restarts = 0;
  gather();
  now_ += seconds(5);
  from(7, failed(0, 3, Duration::max()));
  from(0, failed(0, 0, Duration::min()));
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 3);
  EXPECT_EQ(ending().others.at(0).after, seconds(5));
}

TEST_F(CoordinatorTest, TheCauseIsNotLookedForForEver) {
  job_.max_restarts = 0;
  gather();
  from(7, failed(0, 3));
  EXPECT_EQ(sent<StopRound>().size(), 2U) << "at once, whatever else is still unknown";
  ASSERT_TRUE(did<ArmCoordinatorTimer>());
  now_ += Coordinator::collecting_time;
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_EQ(ending().cause.rank, 3);
  from(0, failed(0, 0, seconds(4)));
  EXPECT_TRUE(last_.empty()) << "it is decided";
}

TEST_F(CoordinatorTest, ManyVictimsAreCountedAndFewAreListed) {
  job_.max_restarts = 0;
  gather();
  for (int rank = 0; rank < 1000; ++rank) {
    Failed one = failed(0, rank);
    one.failure.tail = std::string(10'000, 'x');
    if (rank >= 900) one.failure.status = {ExitStatus::How::signaled, 6, false};
    from(rank % 2 == 0 ? 0U : 7U, one);
    now_ += milliseconds(1);
  }
  from(0, Stopped{0});
  from(7, Stopped{0});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.rank, 0);
  EXPECT_EQ(outcome.cause.tail.size(), 10'000U);
  EXPECT_EQ(outcome.failure_count, 1000);
  EXPECT_EQ(outcome.others.size(), static_cast<std::size_t>(Outcome::max_others));
  EXPECT_EQ(outcome.others.back().tail, "");
  EXPECT_EQ(outcome.tallies, (std::vector<Tally>{{"exited with code 3", 899},
                                                 {"was killed by signal 6 (SIGABRT, aborted)", 100}}));
  EXPECT_LT(encode(End{outcome}).size(), 64U * 1024);
}

TEST_F(CoordinatorTest, RestartsAreRememberedWithTheirCauses) {
  gather();
  now_ += seconds(12);
  from(7, failed(0, 3, seconds(2)));
  from(7, Stopped{0});
  from(0, Stopped{0});
  from(0, failed(1, 1));
  from(7, Stopped{1});
  from(0, Stopped{1});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.rank, 1);
  ASSERT_EQ(outcome.restarts.size(), 1U);
  EXPECT_EQ(outcome.restarts[0].number, 1);
  EXPECT_EQ(outcome.restarts[0].after, seconds(10));
  EXPECT_EQ(outcome.restarts[0].cause.rank, 3);
}

TEST_F(CoordinatorTest, LostNodeIsTheCauseOfItsPeersFailures) {
  job_.max_restarts = 0;
  gather();
  Failed victim = failed(0, 0);
  victim.failure.blames_peer = true;
  from(0, victim);
  now_ += milliseconds(5);
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::broken, "connection reset by peer"}});
  from(0, Stopped{0});
  EXPECT_EQ(ending().cause.kind, FailureKind::node_lost);
  EXPECT_EQ(ending().others.at(0).rank, 0);
}

TEST_F(CoordinatorTest, UnrecoverableLossEndsTheJobDespiteEarlierFailures) {
  gather();
  from(0, failed(0, 0));
  now_ += seconds(3);
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::closed, "gone"}});
  from(0, Stopped{0});
  EXPECT_EQ(ending().cause.kind, FailureKind::node_lost);
  EXPECT_EQ(ending().others.at(0).after, seconds(-3));
}

TEST_F(CoordinatorTest, TheEndIsNotWaitedForForEver) {
  gather();
  from(7, Leave{failed(0, 3).failure});
  now_ += Coordinator::collecting_time;
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_EQ(sent<End>().size(), 2U);
  now_ += seconds(60);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_TRUE(did<CoordinatorEnded>());
}

}  // namespace
}  // namespace dlaunch::agent
