// Rounds: their workers start, fail, stop and are observed; the node's health is checked between them.

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/control/member_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST_F(MemberTest, StartsAWorldOnceAndStopsItOnRequest) {
  work();
  EXPECT_TRUE(told_group<StartWorkers>());
  hear(world(0));
  EXPECT_TRUE(last_.empty()) << "the same world again";
  hear(StopRound{0, "rank 0 failed"});
  EXPECT_TRUE(told_group<StopWorkers>());
  hear(world(1));
  EXPECT_TRUE(last_.empty()) << "workers of round 0 are still there";
  step(RoundStopped{0});
  EXPECT_TRUE(said<Stopped>());
  hear(world(1));
  EXPECT_TRUE(told_group<StartWorkers>());
}

TEST_F(MemberTest, ReportsAFailureAndLetsTheCoordinatorDecide) {
  work();
  Failure failure;
  failure.rank = 1;
  step(RoundFailed{failure, now_ - seconds(1)});
  ASSERT_TRUE(said<Failed>());
  EXPECT_FALSE(got<MemberEnded>());
}

class HealthTest : public MemberTest {
 protected:
  HealthTest() {
    NodeSpec careful = node();
    careful.health_check = "true";
    careful.health_timeout = seconds(5);
    member_ = Member(job(), careful, "0.1", now_);
    last_ = member_.begin();
  }
};

TEST_F(HealthTest, IsCheckedBeforeTheNodeJoins) {
  EXPECT_TRUE(got<RunHealthCheck>());
  EXPECT_FALSE(got<Dial>());
  step(HealthChecked{});
  EXPECT_TRUE(got<Dial>());
}

TEST_F(HealthTest, FailedCheckPreventsJoining) {
  step(HealthChecked{"exited with code 3: no disk"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(describe(got<MemberEnded>()->outcome.cause),
            "node 1 (host b) failed its health check: exited with code 3: no disk");
}

TEST_F(HealthTest, IsCheckedBetweenRoundsBeforeStoppedIsReported) {
  step(HealthChecked{});
  work();
  hear(StopRound{0, "rank 0 failed"});
  step(RoundStopped{0});
  EXPECT_TRUE(got<RunHealthCheck>());
  EXPECT_FALSE(said<Stopped>());
  step(HealthChecked{});
  EXPECT_TRUE(said<Stopped>());
}

TEST_F(HealthTest, FailedCheckMakesTheNodeLeaveWithAReason) {
  step(HealthChecked{});
  work();
  hear(StopRound{0, "rank 0 failed"});
  step(RoundStopped{0});
  step(HealthChecked{"exited with code 3"});
  ASSERT_TRUE(said<Leave>());
  EXPECT_EQ(said<Leave>()->failure.kind, FailureKind::health);
  EXPECT_TRUE(got<MemberEnded>());
}

TEST_F(HealthTest, MayNotTakeForEver) {
  now_ += seconds(5);
  step(MemberTimer{});
  EXPECT_TRUE(got<KillHealthCheck>());
  step(HealthChecked{"was killed by signal 9"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why, "it took longer than 5 s (--health-check-timeout)");
}

TEST_F(HealthTest, IsNotCheckedIfNoRoundFollows) {
  step(HealthChecked{});
  work();
  hear(End{Outcome{}});
  step(RoundStopped{0});
  EXPECT_FALSE(got<RunHealthCheck>());
  EXPECT_TRUE(got<MemberEnded>());
}

// The coordinator's order to stop a round may come after that round has stopped by itself, together with the
// next round.
TEST_F(MemberTest, TheAnswerToALateStopDoesNotEndTheNextRound) {
  work();
  step(RoundStopped{0});
  EXPECT_TRUE(said<Stopped>());
  hear(StopRound{0, "rank 1 failed"});
  hear(world(1));
  step(RoundStopped{0});
  EXPECT_FALSE(said<Stopped>());
  step(SignalCame{SIGTERM});
  EXPECT_TRUE(told_group<StopWorkers>()) << "its workers run";
}

// A coordinator that is dialled expects a greeting first, and then a Join.
TEST_F(MemberTest, TimesAreReportedToALeaderAndToTheNextOne) {
  JobSpec several = job();
  several.endpoints = {{"a", 1}, {"b", 2}};
  member_ = Member(several, node(), "0.1", now_);
  member_.begin();
  work();
  const TimesReport report{{1, seconds(3)}};
  step(LinkDown{{LossKind::closed, "closed by the peer"}});
  ASSERT_TRUE(got<Dial>());
  step(report);
  EXPECT_FALSE(said<TimesReport>()) << "the link is not up";
  step(RoundStopped{0});
  step(LinkUp{});
  ASSERT_TRUE(said<Join>());
  EXPECT_FALSE(said<TimesReport>());
  hear(Welcome{true});
  ASSERT_TRUE(said<TimesReport>());
  EXPECT_EQ(*said<TimesReport>(), report);
  hear(Welcome{true});
  EXPECT_FALSE(said<TimesReport>()) << "the same leader";
  hear(world(1));
  const TimesReport later{{1, seconds(5)}};
  step(later);
  ASSERT_TRUE(said<TimesReport>());
  EXPECT_EQ(*said<TimesReport>(), later);
}

// Where the workers stand is looked at, and told, only where somebody asked for it by --hang-timeout.
class WatchingMemberTest : public MemberTest {
 protected:
  WatchingMemberTest() {
    JobSpec watched = job();
    watched.hang_timeout = seconds(8);
    member_ = Member(watched, node(), "0.1", now_);
    work();
  }
  // Until the next look, and what it sees.
  void look(std::uint64_t moves, std::uint64_t open) {
    now_ += seconds(1);
    step(MemberTimer{});
    const auto* asked = got<LookAtWorkers>();
    ASSERT_TRUE(asked);
    WorkersSeen seen{{moves, open}, std::nullopt};
    if (asked->in_full) seen.group_progress = std::vector<GroupProgress>{{1, "default", 2, {}, {}}};
    step(seen);
  }
};

TEST_F(WatchingMemberTest, AStackIsRequestedOnlyInItsRound) {
  hear(StackRequest{0, 1});
  ASSERT_TRUE(got<RequestStack>());
  EXPECT_EQ(got<RequestStack>()->rank, 1);
  hear(StackRequest{1, 1});
  EXPECT_FALSE(got<RequestStack>());
}

TEST_F(WatchingMemberTest, TheWorkersAreInspectedAndWhatIsFoundReportedOnlyInItsRound) {
  hear(InspectionRequest{1});
  EXPECT_FALSE(got<InspectWorkers>());
  hear(InspectionRequest{0});
  EXPECT_TRUE(got<InspectWorkers>());
  step(WorkersInspected{{0, {{1, "default_pg", 2, {}, {}}}}});
  ASSERT_TRUE(said<Inspected>());
  EXPECT_EQ(said<Inspected>()->groups.size(), 1U);
  step(WorkersInspected{{1, {}}});
  EXPECT_FALSE(said<Inspected>());
}

TEST_F(WatchingMemberTest, TheRanksAreReportedWhenAsked) {
  hear(RanksRequest{1});
  ASSERT_TRUE(got<ReportRanks>());
  EXPECT_EQ(got<ReportRanks>()->rank_with_lines, 1);
}

TEST_F(WatchingMemberTest, NothingIsReportedWhileWorkersProgress) {
  for (std::uint64_t i = 1; i < 20; ++i) {
    look(i, i % 2);
    EXPECT_FALSE(said<Progress>());
  }
}

TEST_F(WatchingMemberTest, StallIsReportedRepeatedlyAndItsEndOnce) {
  look(5, 1);
  look(5, 1);
  look(5, 1);
  EXPECT_FALSE(said<Progress>()) << "for two seconds";
  look(5, 1);
  ASSERT_TRUE(said<Progress>());
  EXPECT_EQ(*said<Progress>(), (Progress{0, seconds(3), true, {{1, "default", 2, {}, {}}}}));
  look(5, 1);
  EXPECT_EQ(said<Progress>()->quiet, seconds(4));
  look(6, 0);
  ASSERT_TRUE(said<Progress>());
  EXPECT_EQ(said<Progress>()->quiet, Duration(0));
  look(7, 0);
  EXPECT_FALSE(said<Progress>());
}

TEST_F(WatchingMemberTest, WorkersAreNotObservedBetweenRounds) {
  hear(StopRound{0, "a node came"});
  ASSERT_TRUE(got<LookAtWorkers>()) << "where they stand at the end";
  EXPECT_TRUE(got<LookAtWorkers>()->in_full);
  step(RoundStopped{0});
  now_ += seconds(100);
  step(MemberTimer{});
  EXPECT_FALSE(got<LookAtWorkers>());
  hear(world(1));
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + seconds(1));
}

TEST_F(MemberTest, ProgressIsReportedOnceWhenARoundFails) {
  work();
  step(RoundFailed{Failure{}, now_});
  ASSERT_TRUE(got<LookAtWorkers>());
  EXPECT_TRUE(got<LookAtWorkers>()->in_full);
  step(WorkersSeen{{5, 1}, std::vector<GroupProgress>{{1, "default", 2, {}, {}}}});
  ASSERT_TRUE(said<Progress>());
  EXPECT_EQ(*said<Progress>(), (Progress{0, Duration(0), true, {{1, "default", 2, {}, {}}}}));
  step(RoundFailed{Failure{}, now_});
  EXPECT_FALSE(got<LookAtWorkers>());
}

TEST_F(MemberTest, WorkersWithoutRecordsAreNotReported) {
  work();
  hear(StopRound{0, "why"});
  step(WorkersSeen{{}, std::vector<GroupProgress>{}});
  EXPECT_FALSE(said<Progress>());
}

TEST_F(MemberTest, WithoutAHangTimeoutWorkersAreNotObserved) {
  work();
  now_ += seconds(1000);
  step(MemberTimer{});
  EXPECT_FALSE(got<LookAtWorkers>());
}

// --- stragglers ---

TEST_F(MemberTest, ArrivalsGoToTheLeaderAndItsAnswerComesBackOnlyInTheirRound) {
  work();
  step(ArrivalsReport{0, {{}, {}, 5}});
  ASSERT_TRUE(said<ArrivalsReport>());
  EXPECT_EQ(*said<ArrivalsReport>(), (ArrivalsReport{0, {{}, {}, 5}}));
  hear(LatenessReport{0, {"rank 1 is slow", {}}});
  ASSERT_TRUE(got<LatenessReport>());
  EXPECT_EQ(got<LatenessReport>()->lateness.straggler, "rank 1 is slow");
  step(ArrivalsReport{1, {}});
  EXPECT_FALSE(said<ArrivalsReport>());
  hear(LatenessReport{1, {}});
  EXPECT_FALSE(got<LatenessReport>());
}

// --- the workers' MPI ---

TEST_F(MemberTest, AnMpiBarrierGoesThroughTheCoordinator) {
  work();
  step(PmiEnter{0, 0, {{"a", "1"}}});
  ASSERT_TRUE(said<PmiEnter>());
  EXPECT_EQ(*said<PmiEnter>(), (PmiEnter{0, 0, {{"a", "1"}}}));
  hear(PmiRelease{0, 0, {{"b", "2"}}, true});
  ASSERT_TRUE(got<PmiRelease>());
  EXPECT_EQ(*got<PmiRelease>(), (PmiRelease{0, 0, {{"b", "2"}}, true}));
}

TEST_F(MemberTest, AnMpiBarrierOfAnotherRoundIsStale) {
  work();
  step(PmiEnter{1, 0});
  EXPECT_FALSE(said<PmiEnter>());
  hear(PmiRelease{1, 0, {}, true});
  EXPECT_FALSE(got<PmiRelease>());
}

}  // namespace
}  // namespace dlaunch::agent
