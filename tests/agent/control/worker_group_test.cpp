#include "agent/control/worker_group.h"

#include <gtest/gtest.h>

#include <csignal>

#include "agent/model/root_cause.h"
#include "tests/agent/control/worker_group_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST_F(WorkerGroupTest, StartsEveryWorkerOnce) {
  World world;
  world.members = {{1, 2, 0, "b", agent_id, 1}};
  step(StartWorkers{world});
  EXPECT_EQ(last_, (GroupActions{SpawnWorker{0}, SpawnWorker{1}}));
}

TEST_F(WorkerGroupTest, IsDoneWhenAllReturnedZeroAndNothingIsLeft) {
  start();
  exit(0, 0);
  EXPECT_TRUE(last_.empty());
  exit(1, 0);
  EXPECT_TRUE(last_.empty());
  step(AllGone{});
  EXPECT_EQ(last_, (GroupActions{RoundDone{0}}));
  EXPECT_FALSE(group_.active());
}

TEST_F(WorkerGroupTest, AFailureIsReportedOnceAndStopsTheOthers) {
  start();
  exit(1, 3);
  const auto* failed = got<RoundFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->failure.rank, 3);
  EXPECT_EQ(failed->failure.local_rank, 1);
  EXPECT_EQ(failed->failure.pid, 101);
  EXPECT_EQ(failed->failure.tail, "tail");
  EXPECT_TRUE(got<SignalAll>());
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + seconds(30));
  killed(0, SIGTERM);
  EXPECT_FALSE(got<RoundFailed>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
}

TEST_F(WorkerGroupTest, EarlierFailureIsReportedThoughItEndsLater) {
  start();
  exit(0, 3);
  now_ += seconds(2);
  // Its exception came three seconds ago, before the other's end.
  ended(1, {ExitStatus::How::exited, 1, false}, seconds(3));
  const auto* failed = got<RoundFailed>();
  ASSERT_TRUE(failed);
  EXPECT_EQ(failed->when, now_ - seconds(3));
  EXPECT_EQ(failed->failure.exception, "E: x");
  EXPECT_EQ(failed->failure.tail, "tail");
  EXPECT_FALSE(failed->failure.while_stopping);
  EXPECT_FALSE(got<SignalAll>()) << "stopping has begun already";
}

TEST_F(WorkerGroupTest, AnExceptionBeforeOurSignalIsAFailureThoughTheSignalEndedIt) {
  start();
  exit(0, 3);
  now_ += seconds(2);
  ended(1, {ExitStatus::How::signaled, SIGTERM, false}, seconds(3));
  const auto* failed = got<RoundFailed>();
  ASSERT_TRUE(failed);
  EXPECT_TRUE(failed->failure.ended_by_us);
  EXPECT_EQ(exit_code_of(failed->failure), 1);
  EXPECT_NE(describe(failed->failure).find("had failed, and was stopped before it had exited: E: x"),
            std::string::npos);
}

TEST_F(WorkerGroupTest, StoppedWorkerHasNotFailed) {
  start();
  exit(0, 3);
  now_ += seconds(1);
  exit(1, 128 + SIGTERM);  // by a handler
  EXPECT_FALSE(got<RoundFailed>());
}

TEST_F(WorkerGroupTest, StoppedWorkerWithAnErrorFileIsASuspect) {
  start();
  exit(0, 3);
  WorkerExit exit;
  exit.status = {ExitStatus::How::signaled, SIGTERM, false};
  exit.tail = "KeyError: after the stop";
  exit.tail_at_signal = "loading\nIndexError: bad index";
  step(WorkerExited{1, 101, exit});
  const auto* told = got<RoundFailed>();
  ASSERT_TRUE(told);
  EXPECT_TRUE(is_suspect(told->failure));
  EXPECT_EQ(told->failure.exception, "IndexError: bad index");
}

TEST_F(WorkerGroupTest, FailureDuringStopIsReportedWithoutDetails) {
  start();
  exit(0, 3);
  now_ += seconds(1);
  exit(1, 4);
  const auto* failed = got<RoundFailed>();
  ASSERT_TRUE(failed);
  EXPECT_TRUE(failed->failure.while_stopping);
  EXPECT_EQ(failed->failure.tail, "");
}

TEST_F(WorkerGroupTest, FailureThatBlamesAPeerIsMarkedAndLaterOnesAreBrief) {
  start();
  exit(0, 3);
  WorkerExit exit;
  exit.status = {ExitStatus::How::exited, 1, false};
  exit.tail = "RuntimeError: Connection closed by peer";
  step(WorkerExited{1, 101, exit});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_TRUE(got<RoundFailed>()->failure.blames_peer);
  EXPECT_EQ(got<RoundFailed>()->failure.tail, "");
}

TEST_F(WorkerGroupTest, DeathsOfOneInstantAreBothFailures) {
  start();
  exit(0, 3);
  exit(1, 4);
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_FALSE(got<RoundFailed>()->failure.while_stopping);
}

TEST_F(WorkerGroupTest, AKillAfterTheGraceTimeIsOurs) {
  start();
  exit(0, 3);
  step(StopDeadline{});
  EXPECT_TRUE(got<KillAll>());
  killed(1, SIGKILL);
  EXPECT_FALSE(got<RoundFailed>());
}

TEST_F(WorkerGroupTest, KillsProcessesThatIgnoreTheSignal) {
  start();
  step(StopWorkers{SIGTERM});
  EXPECT_EQ(got<SignalAll>()->signo, SIGTERM);
  step(StopDeadline{});
  EXPECT_TRUE(got<KillAll>());
  killed(0, SIGKILL);
  killed(1, SIGKILL);
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
}

TEST_F(WorkerGroupTest, ASignalMayHaveAGraceTimeOfItsOwn) {
  start();
  step(StopWorkers{SIGINT});
  EXPECT_EQ(got<SignalAll>()->signo, SIGINT);
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + seconds(5));
  step(StopDeadline{});
  EXPECT_EQ(got<LogMessage>()->text,
            "ranks 2 (pid 100) and 3 (pid 101) ignored SIGINT for 5 s (--stop-timeout): sending SIGKILL");
}

TEST_F(WorkerGroupTest, ZeroGraceKillsAtOnce) {
  group_ = WorkerGroup(node(), {seconds(30), {{SIGINT, Duration(0)}}});
  start();
  step(StopWorkers{SIGINT});
  EXPECT_EQ(last_, (GroupActions{SignalAll{SIGKILL}, KillAll{},
                                 ArmStopDeadline{now_ + WorkerGroup::unkillable_after}}));
  killed(0, SIGKILL);
  killed(1, SIGKILL);
  EXPECT_FALSE(got<RoundFailed>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
}

TEST_F(WorkerGroupTest, ZeroGraceAlsoKillsPeersOfFailedWorker) {
  group_ = WorkerGroup(node(), {Duration(0), {{SIGINT, seconds(5)}}});
  start();
  exit(0, 3);
  EXPECT_TRUE(got<RoundFailed>());
  EXPECT_EQ(got<SignalAll>()->signo, SIGKILL);
  EXPECT_TRUE(got<KillAll>());
  WorkerExit exit;
  exit.status = {ExitStatus::How::signaled, SIGKILL, false};
  exit.tail_at_signal = "IndexError: bad index";
  step(WorkerExited{1, 101, exit});
  EXPECT_TRUE(is_suspect(got<RoundFailed>()->failure));
}

TEST_F(WorkerGroupTest, NoGraceTimeIsForTheNextRoundsToo) {
  group_ = WorkerGroup(node(), {Duration(0), {}});
  for (round_ = 0; round_ < 2; ++round_) {
    start();
    step(StopWorkers{SIGTERM});
    EXPECT_EQ(got<SignalAll>()->signo, SIGKILL);
    killed(0, SIGKILL);
    killed(1, SIGKILL);
    step(AllGone{});
    EXPECT_EQ(last_, (GroupActions{DisarmStopDeadline{}, RoundStopped{round_, false}}));
  }
}

TEST_F(WorkerGroupTest, ZeroGraceAlsoKillsLeftovers) {
  group_ = WorkerGroup(node(), {Duration(0), {}});
  start();
  exit(0, 0);
  exit(1, 0);
  step(LeftoversRemain{1, "77 (sleep)"});
  EXPECT_EQ(got<LogMessage>()->text,
            "the workers have ended but left 1 process behind, such as 77 (sleep): killing them");
  EXPECT_EQ(got<SignalAll>()->signo, SIGKILL);
  EXPECT_TRUE(got<KillAll>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundDone>());
}

TEST_F(WorkerGroupTest, ReportsProcessesThatSurviveSigkill) {
  start();
  step(StopWorkers{SIGTERM});
  step(StopDeadline{});
  step(StopDeadline{});
  ASSERT_TRUE(got<RoundStuck>());
  EXPECT_EQ(got<RoundStuck>()->failure.kind, FailureKind::unkillable);
  EXPECT_EQ(got<RoundStuck>()->failure.why, "survived SIGKILL for 20 s");
}

TEST_F(WorkerGroupTest, StopsLeftoversAndStillSucceeds) {
  start();
  exit(0, 0);
  exit(1, 0);
  step(LeftoversRemain{1, "77 (sleep)"});
  EXPECT_TRUE(got<SignalAll>());
  step(StopDeadline{});
  EXPECT_TRUE(got<KillAll>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundDone>());
}

TEST_F(WorkerGroupTest, AllGoneBetweenTwoStartsIsNotTheEnd) {
  World world;
  world.members = {{1, 2, 0, "b", agent_id, 1}};
  step(StartWorkers{world});
  step(WorkerStarted{0, 100});
  exit(0, 0);
  step(AllGone{});
  EXPECT_TRUE(last_.empty());
  EXPECT_TRUE(group_.active());
}

TEST_F(WorkerGroupTest, AProgramThatCannotBeStartedIsAFailure) {
  World world;
  world.members = {{1, 2, 2, "b", agent_id, 1}};
  step(StartWorkers{world});
  step(WorkerSpawnFailed{0, "No such file or directory"});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_EQ(describe(got<RoundFailed>()->failure),
            "rank 2 (local rank 0, node 1, host b) could not be started: No such file or directory");
}

TEST_F(WorkerGroupTest, StopWhileIdleIsAnsweredAtOnce) {
  step(StopWorkers{SIGTERM});
  EXPECT_TRUE(got<RoundStopped>());
}

TEST_F(WorkerGroupTest, ADaemonInItsOwnSessionIsSignalledOnceItsWorkerIsDead) {
  start();
  step(StopWorkers{SIGTERM});
  killed(0, SIGTERM);
  killed(1, SIGTERM);
  step(LeftoversRemain{1, "77 (daemon)"});
  EXPECT_EQ(got<SignalAll>()->signo, SIGTERM);
}

// The keeper counts what is left when it has no worker, and a start may be on its way to it then.
TEST_F(WorkerGroupTest, LeftoversCountedBetweenTwoStartsAreCountedAgain) {
  start();
  exit(0, 0);
  step(LeftoversRemain{1, "77 (short-lived)"});
  EXPECT_TRUE(last_.empty());
  step(StopWorkers{SIGTERM});
  killed(1, SIGTERM);
  step(LeftoversRemain{1, "78 (daemon)"});
  EXPECT_EQ(got<SignalAll>()->signo, SIGTERM);
}

// Without a stop before it: what ends so is no failure.
TEST_F(WorkerGroupTest, AKillOfARunningRoundIsOurs) {
  start();
  step(KillNow{});
  EXPECT_TRUE(got<KillAll>());
  killed(0, SIGKILL);
  EXPECT_FALSE(got<RoundFailed>());
  killed(1, SIGKILL);
  EXPECT_FALSE(got<RoundFailed>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
}

// The kill crosses the ends of the workers: they had succeeded, but the round is not done, it was stopped.
TEST_F(WorkerGroupTest, AKilledRoundIsNotDoneThoughItsWorkersSucceeded) {
  start();
  exit(0, 0);
  step(KillNow{});
  exit(1, 0);
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
  EXPECT_FALSE(got<RoundDone>());
}

TEST_F(WorkerGroupTest, AKilledKeeperIsAFailureOfTheRoundWhichHasStopped) {
  start();
  exit(0, 0);
  step(WorkersLost{"the keeper process 5"});
  ASSERT_TRUE(got<RoundFailed>());
  const Failure& failure = got<RoundFailed>()->failure;
  EXPECT_EQ(failure.kind, FailureKind::agent);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(describe(failure),
            "the keeper process 5 (node 1, host b) was killed, and with it the workers there");
  EXPECT_EQ(got<LogMessage>()->text, describe(failure) + "; another takes its place");
  EXPECT_EQ(last_.back(), GroupAction(RoundStopped{0, false}));
  EXPECT_FALSE(group_.active());
}

TEST_F(WorkerGroupTest, AKeeperKilledWhileWorkersAreStoppedIsNoFurtherFailure) {
  start();
  step(StopWorkers{SIGTERM});
  step(WorkersLost{"the keeper process 5"});
  EXPECT_FALSE(got<RoundFailed>());
  EXPECT_TRUE(got<DisarmStopDeadline>());
  EXPECT_EQ(last_.back(), GroupAction(RoundStopped{0, false}));
}

TEST_F(WorkerGroupTest, AKeeperKilledAfterAllReturned0TakesNothingAway) {
  start();
  exit(0, 0);
  exit(1, 0);
  step(LeftoversRemain{1, "77 (daemon)"});
  step(WorkersLost{"the keeper process 5"});
  EXPECT_FALSE(got<RoundFailed>());
  EXPECT_EQ(last_.back(), GroupAction(RoundDone{0}));
}

TEST_F(WorkerGroupTest, AKeeperKilledBetweenTwoRoundsIsOnlySaid) {
  step(WorkersLost{"the keeper process 5"});
  ASSERT_EQ(last_.size(), 1U);
  EXPECT_EQ(got<LogMessage>()->text,
            "the keeper process 5 (node 1, host b) was killed; another takes its place");
}

TEST_F(WorkerGroupTest, RunningBlamedRankGetsAGraceTime) {
  start();
  accuse(0, 3);
  EXPECT_TRUE(got<RoundFailed>()->failure.blames_peer);
  EXPECT_FALSE(got<SignalAll>());
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + blamed_rank_grace);
  now_ += 2 * one_moment;
  WorkerExited late{1, 101, {}};
  late.exit.status.number = 1;
  late.exit.tail = "std::bad_alloc";
  step(late);
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_FALSE(got<RoundFailed>()->failure.while_stopping) << "it ended by itself";
  EXPECT_EQ(got<RoundFailed>()->failure.tail, "std::bad_alloc")
      << "it may be the cause, however late it ends";
  EXPECT_TRUE(got<SignalAll>());
}

TEST_F(WorkerGroupTest, BlamedRankThatRunsOnIsStoppedAfterTheGraceTime) {
  start();
  accuse(0, 3);
  now_ += blamed_rank_grace;
  step(StopDeadline{});
  EXPECT_EQ(got<SignalAll>()->signo, SIGTERM);
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + seconds(30));
  WorkerExit exit;
  exit.status = {ExitStatus::How::signaled, SIGTERM, false};
  exit.tail = "thinking";
  exit.exit_record.in_exception = true;
  step(WorkerExited{1, 101, exit});
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_TRUE(is_suspect(got<RoundFailed>()->failure));
  EXPECT_EQ(got<RoundFailed>()->failure.exception, "thinking") << "an error or not";
}

TEST_F(WorkerGroupTest, BlamedRankThatReturns0EndsTheWait) {
  start();
  accuse(0, 3);
  exit(1, 0);
  ASSERT_TRUE(got<RoundFailed>());
  EXPECT_TRUE(got<RoundFailed>()->failure.status.success());
  EXPECT_TRUE(is_suspect(got<RoundFailed>()->failure));
  EXPECT_TRUE(got<SignalAll>());
  step(AllGone{});
  EXPECT_TRUE(got<RoundStopped>());
}

TEST_F(WorkerGroupTest, OnlyRunningLocalRanksAreAwaited) {
  start();
  accuse(0, 1);  // on another node
  EXPECT_TRUE(got<SignalAll>());
  step(AllGone{});
}

TEST_F(WorkerGroupTest, UnknownBlamedRankMayBeAnyRunningRank) {
  start();
  accuse(0, -1);
  EXPECT_FALSE(got<SignalAll>());
  accuse(1, -1);
  EXPECT_TRUE(got<SignalAll>()) << "nobody is left";
}

// All reports together show which rank differs.
TEST_F(WorkerGroupTest, AfterAMismatchOfCallsAllRanksAreAwaited) {
  start();
  WorkerExit exit;
  exit.status = {ExitStatus::How::exited, 1, false};
  exit.exit_record.blamed_rank = 0;  // on another node
  exit.tail =
      "train: rank 2, all_reduce #5 of group default, peer 0 on b: the ranks call different operations: rank "
      "0 "
      "calls barrier(), this rank all_reduce(9 x float32, sum)";
  step(WorkerExited{0, 100, exit});
  EXPECT_FALSE(got<SignalAll>());
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + blamed_rank_grace);
  step(WorkerExited{1, 101, exit});
  EXPECT_TRUE(got<SignalAll>()) << "nobody is left";
}

TEST_F(WorkerGroupTest, AStopDoesNotWaitForTheAccused) {
  start();
  accuse(0, 3);
  step(StopWorkers{SIGINT});
  EXPECT_EQ(got<SignalAll>()->signo, SIGINT);
  EXPECT_EQ(got<ArmStopDeadline>()->at, now_ + seconds(5));
}

TEST_F(WorkerGroupTest, HowEachHasEndedIsKept) {
  start();
  killed(0, SIGSEGV);
  killed(1, SIGTERM);
  EXPECT_EQ(group_.workers()[0].how_ended, "was killed by SIGSEGV");
  EXPECT_EQ(group_.workers()[1].how_ended, "was stopped by dlaunch");
}

TEST_F(WorkerGroupTest, FailureIsReportedAtOnceWithTheNextStep) {
  start();
  exit(1, 5);
  ASSERT_TRUE(got<LogMessage>());
  EXPECT_EQ(got<LogMessage>()->text,
            "rank 3 exited with code 5; stopping the other one: SIGTERM, at most 30 s");
  exit(0, 1);
  EXPECT_FALSE(got<LogMessage>());
}

TEST_F(WorkerGroupTest, NothingIsAddedIfNoWorkerIsLeftToStop) {
  start();
  exit(0, 0);
  exit(1, 5);
  EXPECT_FALSE(got<LogMessage>());
}

}  // namespace
}  // namespace dlaunch::agent
