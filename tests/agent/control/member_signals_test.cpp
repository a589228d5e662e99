// Signals and notices of an end.

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/control/member_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

TEST_F(MemberTest, WhichSignalsStopIsTheNodesChoice) {
  NodeSpec choosy = node();
  choosy.stop_signals = {SIGUSR1};
  member_ = Member(job(), choosy, "0.1", now_);
  work();
  step(SignalCame{SIGTERM});
  EXPECT_TRUE(got<ForwardSignal>());
  EXPECT_FALSE(told_group<StopWorkers>());
  step(SignalCame{SIGUSR1});
  ASSERT_TRUE(told_group<StopWorkers>());
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGUSR1);
}

TEST_F(MemberTest, PassesTheFirstSignalOnAndKillsAtTheSecond) {
  work();
  step(SignalCame{SIGINT});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGINT);
  EXPECT_TRUE(said<Leave>());
  step(SignalCame{SIGINT});
  EXPECT_TRUE(told_group<KillNow>());
}

TEST_F(MemberTest, EndAfterPreemptionIsSuccessIfRequestedAndAllReturn0) {
  const auto exit_code = [this](bool ok, int signo, bool all_returned_0) {
    NodeSpec preempted = node();
    preempted.preempt_ok = ok;
    member_ = Member(job(), preempted, "0.1", now_);
    work();
    step(SignalCame{signo});
    Outcome stopped;
    stopped.failed = true;
    stopped.cause.kind = FailureKind::signal;
    stopped.cause.status = {ExitStatus::How::signaled, signo, false};
    stopped.exit_code = 128 + signo;
    hear(End{stopped});
    step(RoundStopped{0, all_returned_0});
    return got<MemberEnded>()->outcome.exit_code;
  };
  EXPECT_EQ(exit_code(true, SIGTERM, true), 0);
  EXPECT_EQ(exit_code(true, SIGTERM, false), 143);
  EXPECT_EQ(exit_code(true, SIGINT, true), 130);
  EXPECT_EQ(exit_code(false, SIGTERM, true), 143);
}

TEST_F(MemberTest, RepeatedSignalOfASupervisorDoesNotKill) {
  work();
  for (const int signo : {SIGTERM, SIGTERM, SIGHUP, SIGTERM}) {
    step(SignalCame{signo});
    EXPECT_FALSE(told_group<KillNow>());
  }
  step(SignalCame{SIGINT});
  EXPECT_TRUE(told_group<KillNow>());
}

TEST_F(MemberTest, LogsThatWorkersGetNoGraceTime) {
  JobSpec hasty = job();
  hasty.stop_timeout = {seconds(30), {{SIGINT, Duration(0)}}};
  member_ = Member(hasty, node(), "0.1", now_);
  work();
  step(SignalCame{SIGINT});
  EXPECT_EQ(got<LogMessage>()->text, "told to end by SIGINT: killing the workers at once (--stop-timeout)");
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGINT);
}

class NoticeTest : public MemberTest {
 protected:
  NoticeTest() {
    NodeSpec warning = node();
    warning.preempt_signal = SIGUSR1;
    warning.preempt_notice = seconds(20);
    member_ = Member(job(), warning, "0.1", now_);
    work();
  }
};

TEST_F(NoticeTest, ComesBeforeTheSigterm) {
  step(SignalCame{SIGTERM});
  EXPECT_EQ(got<ForwardSignal>()->signo, SIGUSR1);
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + seconds(20));
  EXPECT_FALSE(said<Leave>());
  EXPECT_FALSE(told_group<StopWorkers>());
  now_ += seconds(20);
  step(MemberTimer{});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGTERM);
  EXPECT_TRUE(said<Leave>());
}

TEST_F(NoticeTest, IsTheOnlyTimeForWorkersWithoutGraceTime) {
  JobSpec hasty = job();
  hasty.stop_timeout = {Duration(0), {}};
  NodeSpec warning = node();
  warning.preempt_signal = SIGUSR1;
  warning.preempt_notice = seconds(20);
  member_ = Member(hasty, warning, "0.1", now_);
  work();
  step(SignalCame{SIGTERM});
  EXPECT_EQ(got<ForwardSignal>()->signo, SIGUSR1);
  EXPECT_EQ(
      got<LogMessage>()->text,
      "told to end: giving the workers notice by SIGUSR1; SIGKILL follows in 20 s (a second signal sends "
      "it at once)");
}

TEST_F(NoticeTest, IsForwardedToTheOtherNodes) {
  step(SignalCame{SIGTERM});
  ASSERT_TRUE(said<Preempt>());
  EXPECT_EQ(said<Preempt>()->round, 0U);
  hear(Preempt{0, "node 0"});
  EXPECT_TRUE(last_.empty()) << "the workers know";
}

TEST_F(NoticeTest, OfAnotherNodesEndComesOnce) {
  hear(Preempt{1, "node 0"});
  EXPECT_FALSE(got<ForwardSignal>()) << "of another round";
  hear(Preempt{0, "node 0\x1b[2J" + std::string(5000, 'x')});
  EXPECT_EQ(got<ForwardSignal>()->signo, SIGUSR1);
  EXPECT_FALSE(said<Preempt>());
  EXPECT_EQ(got<LogMessage>()->text.find('\x1b'), std::string::npos);
  EXPECT_LT(got<LogMessage>()->text.size(), 500U);
  hear(Preempt{0, "node 0"});
  EXPECT_FALSE(got<ForwardSignal>());
  // Their own end is announced to them already; its SIGTERM keeps its distance.
  step(SignalCame{SIGTERM});
  EXPECT_FALSE(got<ForwardSignal>());
  EXPECT_FALSE(told_group<StopWorkers>());
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + seconds(20));
}

TEST_F(NoticeTest, OfTheNextRoundIsANewOne) {
  hear(Preempt{0, "node 0"});
  step(RoundStopped{0, false});
  hear(world(1));
  hear(Preempt{1, "node 0"});
  EXPECT_TRUE(got<ForwardSignal>());
}

TEST_F(NoticeTest, OfAnotherNodesEndIsNoneForWorkersThatEnd) {
  step(SignalCame{SIGINT});
  hear(Preempt{0, "node 0"});
  EXPECT_FALSE(got<ForwardSignal>());
}

TEST_F(MemberTest, NoticeOfAnotherNodesEndIsOptional) {
  work();
  hear(Preempt{0, "node 0"});
  EXPECT_TRUE(last_.empty());
}

TEST_F(NoticeTest, IsNotCutShortByASchedulerThatAsksTwice) {
  step(SignalCame{SIGTERM});
  now_ += seconds(1);
  step(SignalCame{SIGTERM});
  EXPECT_TRUE(last_.empty());
  now_ += seconds(19);
  step(MemberTimer{});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGTERM);
}

TEST_F(NoticeTest, OfASecondEndsAfterThat) {
  NodeSpec warning = node();
  warning.preempt_signal = SIGUSR1;
  warning.preempt_notice = seconds(1);
  member_ = Member(job(), warning, "0.1", now_);
  work();
  step(SignalCame{SIGTERM});
  now_ += seconds(1);
  step(MemberTimer{});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGTERM);
}

TEST_F(NoticeTest, IsCutShortByAnotherSignal) {
  step(SignalCame{SIGTERM});
  step(SignalCame{SIGINT});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGINT);
}

TEST_F(NoticeTest, IsCutShortByALaterSigterm) {
  step(SignalCame{SIGTERM});
  now_ += seconds(6);
  step(SignalCame{SIGTERM});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGTERM);
  step(SignalCame{SIGTERM});
  EXPECT_FALSE(told_group<KillNow>());
  step(SignalCame{SIGINT});
  EXPECT_TRUE(told_group<KillNow>());
}

TEST_F(NoticeTest, IsOnlyForSigterm) {
  step(SignalCame{SIGINT});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGINT);
}

TEST_F(NoticeTest, WorkerEndedByItHasNotFailed) {
  step(SignalCame{SIGTERM});
  step(RoundFailed{Failure{}, now_});
  EXPECT_FALSE(said<Failed>());
  ASSERT_TRUE(said<Leave>());
  EXPECT_EQ(said<Leave>()->failure.kind, FailureKind::signal);
}

TEST_F(NoticeTest, WorkersThatAllReturnZeroHaveDoneTheirJob) {
  step(SignalCame{SIGTERM});
  step(RoundDone{0});
  EXPECT_TRUE(said<Done>());
}

TEST_F(MemberTest, AUserSignalOnlyPassesThrough) {
  work();
  step(SignalCame{SIGUSR1});
  EXPECT_EQ(last_.size(), 1U);
  EXPECT_EQ(got<ForwardSignal>()->signo, SIGUSR1);
}

TEST_F(MemberTest, ASignalBeforeTheJobHasBegunEndsAtOnce) {
  step(SignalCame{SIGTERM});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.exit_code, 143);
}

}  // namespace
}  // namespace dlaunch::agent
