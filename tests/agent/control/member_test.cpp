#include "agent/control/member.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class MemberTest : public ::testing::Test {
 protected:
  static JobSpec job() {
    JobSpec job;
    job.id = "j";
    job.nnodes = 2;
    job.join_timeout = seconds(60);
    job.stop_timeout.usual = seconds(30);
    job.master = {"m", 29500};
    job.node_timeout = Duration(0);
    return job;
  }
  NewWorld world(std::uint32_t round) const {
    NewWorld message;
    message.grant = {stamp_of(now_), seconds(5)};
    message.world.round = round;
    message.world.world_size = 2;
    message.world.nodes = 2;
    message.world.members = {{1, 1, 1, "b", agent_id, 1}};
    return message;
  }
  void step(const MemberEvent& event) { last_ = member_.step(now_, event); }
  void hear(Message message) { step(FromCoordinator{std::move(message)}); }
  void work() {
    step(LinkUp{});
    hear(world(0));
  }
  template <class A>
  const A* got() const {
    for (const auto& action : last_) {
      if (const auto* found = std::get_if<A>(&action)) return found;
    }
    return nullptr;
  }
  template <class E>
  const E* told_group() const {
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToGroup>(&action)) {
        if (const auto* event = std::get_if<E>(&to->event)) return event;
      }
    }
    return nullptr;
  }
  template <class M>
  const M* said() const {
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToCoordinator>(&action)) {
        if (const auto* message = std::get_if<M>(&to->message)) return message;
      }
    }
    return nullptr;
  }

  static constexpr AgentId agent_id = 42;
  static NodeSpec node() {
    NodeSpec node{1, 1, "b", "default", {"./train"}};
    node.agent = agent_id;
    return node;
  }

  TimePoint now_{seconds(100)};
  Member member_{job(), node(), "0.1", now_};
  MemberActions last_;
};

TEST_F(MemberTest, TriesAgainUntilTheMasterAnswers) {
  step(LinkDown{{LossKind::broken, "connection refused"}});
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + milliseconds(20));
  now_ += milliseconds(20);
  step(MemberTimer{});
  EXPECT_TRUE(got<Dial>());
  step(LinkUp{});
  ASSERT_TRUE(said<Join>());
  EXPECT_EQ(said<Join>()->node_rank, 1);
}

TEST_F(MemberTest, AMasterThatNeverAnswersIsNamedAtTheDeadline) {
  now_ += seconds(6);
  step(LinkDown{{LossKind::broken, "connection refused"}});
  EXPECT_EQ(got<LogMessage>()->text,
            "waiting for node 0 at m:29500 (6 s so far; giving up in 54 s): connection refused");
  now_ += seconds(54);
  step(LinkDown{{LossKind::broken, "connection refused"}});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.exit_code, 1);
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why,
            "waited 1 min 0 s for node 0 at m:29500, which never answered: connection refused");
}

TEST_F(MemberTest, SilentEndpointIsNamedAtTheDeadline) {
  step(LinkUp{});
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + seconds(60) + Member::leave_timeout);
  now_ += seconds(70);
  step(MemberTimer{});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(
      got<MemberEnded>()->outcome.cause.why,
      "waited 1 min 10 s for node 0 at m:29500, which accepted the connection but never started the job");
}

TEST_F(MemberTest, EarlyDisconnectMayMeanNoDlaunch) {
  step(LinkUp{});
  step(LinkDown{{LossKind::broken, "connection reset by peer"}});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(
      got<MemberEnded>()->outcome.cause.why,
      "lost the connection to m:29500 before the job started: connection reset by peer; check --master-addr "
      "and --master-port, and that dlaunch runs there (torchrun cannot join a dlaunch job)");
}

TEST_F(MemberTest, EarlyEndOfNode0IsRecognized) {
  step(LinkUp{});
  hear(Welcome{true, false, 1});
  step(LinkDown{{LossKind::closed, "closed by the peer"}});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why,
            "node 0 at m:29500 closed the connection before the job started");
}

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

TEST_F(MemberTest, EndsWithTheJobsOutcomeAfterItsWorkersHaveGone) {
  work();
  Outcome outcome;
  outcome.exit_code = 3;
  outcome.failed = true;
  hear(End{outcome});
  EXPECT_TRUE(told_group<StopWorkers>());
  EXPECT_FALSE(got<MemberEnded>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.exit_code, 3);
}

TEST_F(MemberTest, PassesTheFirstSignalOnAndKillsAtTheSecond) {
  work();
  step(SignalCame{SIGINT});
  EXPECT_EQ(told_group<StopWorkers>()->signo, SIGINT);
  EXPECT_TRUE(said<Leave>());
  step(SignalCame{SIGINT});
  EXPECT_TRUE(told_group<KillNow>());
}

// A node that has lost the leader while its workers run, and has found the next one.
class FenceTest : public MemberTest {
 protected:
  void find_another_leader(bool which_went_on) {
    JobSpec moving = job();
    moving.endpoints = {{"m", 1}, {"n", 1}};
    moving.node_timeout = seconds(5);
    member_ = Member(moving, node(), "0.1", now_);
    work();
    step(LinkDown{{LossKind::broken, "connection reset by peer"}});
    EXPECT_TRUE(told_group<StopWorkers>());
    step(LinkUp{});
    hear(Welcome{true, which_went_on, 1});
  }
  bool kills_after_the_node_timeout() {
    now_ += seconds(5);
    hear(Heartbeat{2});
    step(MemberTimer{});
    return told_group<KillNow>() != nullptr;
  }
};

TEST_F(FenceTest, AllowsTheStopTimeoutOfAwaitedNodes) {
  find_another_leader(false);
  EXPECT_FALSE(kills_after_the_node_timeout());
}

TEST_F(FenceTest, IsNotExtendedForOtherNodes) {
  find_another_leader(true);
  EXPECT_TRUE(kills_after_the_node_timeout());
}

TEST_F(FenceTest, IsNotForTheWorkersOfTheNextWorld) {
  find_another_leader(true);
  step(RoundStopped{0});
  hear(world(2));
  EXPECT_TRUE(told_group<StartWorkers>());
  EXPECT_FALSE(kills_after_the_node_timeout());
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

TEST_F(NoticeTest, IsCutShortByASecondSignal) {
  step(SignalCame{SIGTERM});
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

TEST_F(MemberTest, LosingTheCoordinatorStopsTheWorkers) {
  work();
  step(LinkDown{{LossKind::broken, "connection closed"}});
  EXPECT_TRUE(told_group<StopWorkers>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(describe(got<MemberEnded>()->outcome.cause), "node 0 (host m) was lost: connection closed");
}

TEST_F(MemberTest, RefusalIsFinalAndHasAReason) {
  step(LinkUp{});
  hear(Refused{"--node-rank=1 is taken by host c"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why,
            "node 0 at m:29500 refused this node: --node-rank=1 is taken by host c");
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

TEST_F(MemberTest, TheKeepersDeathEndsTheNode) {
  work();
  step(KeeperLost{"the keeper process (pid 5) was killed"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_TRUE(said<Leave>());
}

// A node that waits at an endpoint that does not lead.
class StayingMemberTest : public MemberTest {
 protected:
  StayingMemberTest() {
    JobSpec several = job();
    several.endpoints = {{"a", 1}, {"b", 2}, {"c", 3}};
    several.node_timeout = seconds(5);
    member_ = Member(several, node(), "0.1", now_);
    member_.begin();
  }
  // The endpoints before `first` do not answer, and no other leads.
  void stay_with(std::size_t first) {
    for (std::size_t i = 0; i < 3; ++i) {
      now_ += seconds(2);  // the longer the walk, the longer the stay
      if (i < first) {
        step(LinkDown{{LossKind::silent, "connection timed out"}});
      } else {
        step(LinkUp{});
        hear(Welcome{false});
      }
    }
    ASSERT_TRUE(got<Dial>());
    EXPECT_EQ(got<Dial>()->endpoint, first);
    step(LinkUp{});
    ASSERT_TRUE(said<Join>());
    EXPECT_TRUE(said<Join>()->stays);
    hear(Welcome{false});
  }
  // The endpoint that is asked next; 99: none within five seconds.
  std::size_t next_question() {
    for (int i = 0; i < 10; ++i) {
      now_ += milliseconds(500);
      hear(Heartbeat{});
      step(MemberTimer{});
      if (const auto* question = got<ProbeEndpoint>()) return question->endpoint;
    }
    return 99;
  }
};

TEST_F(StayingMemberTest, AsksTheOtherEndpointsInTurn) {
  stay_with(1);
  EXPECT_EQ(next_question(), 2U);
  step(EndpointProbed{2, true, false});
  EXPECT_FALSE(got<Dial>()) << "all come to the first that answers";
  EXPECT_EQ(next_question(), 0U);
  EXPECT_EQ(next_question(), 2U) << "without an answer, too";
}

TEST_F(StayingMemberTest, GoesAtOnceToTheOneThatLeads) {
  stay_with(0);
  EXPECT_EQ(next_question(), 1U);
  step(EndpointProbed{2, true, true});
  EXPECT_FALSE(got<Dial>()) << "the answer to another question";
  step(EndpointProbed{1, true, true});
  EXPECT_TRUE(got<Disconnect>());
  ASSERT_TRUE(got<Dial>());
  EXPECT_EQ(got<Dial>()->endpoint, 1U);
  step(LinkUp{});
  EXPECT_FALSE(said<Join>()->stays) << "the coordinator has lost its leadership: the node searches";
  hear(Welcome{true});
  EXPECT_TRUE(member_.has_leader());
  step(EndpointProbed{1, true, true});
  EXPECT_FALSE(got<Dial>());
}

TEST_F(StayingMemberTest, WithoutALeaderAllMeetAtTheFirstEndpointThatAnswers) {
  stay_with(2);
  EXPECT_EQ(next_question(), 0U);
  step(EndpointProbed{0, false});
  EXPECT_FALSE(got<Dial>());
  EXPECT_EQ(next_question(), 1U);
  step(EndpointProbed{1, true, false, true});
  EXPECT_FALSE(got<Dial>()) << "its node follows a leader elsewhere";
  EXPECT_EQ(next_question(), 0U);
  step(EndpointProbed{0, true, false});
  ASSERT_TRUE(got<Dial>());
  EXPECT_EQ(got<Dial>()->endpoint, 0U);
  step(LinkUp{});
  EXPECT_TRUE(said<Join>()->stays);
}

TEST_F(StayingMemberTest, WithoutAWaitNothingIsAsked) {
  step(LinkUp{});
  hear(Welcome{true});
  EXPECT_EQ(next_question(), 99U);
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

TEST_F(MemberTest, SuspendedNodeBlamesNoOther) {
  JobSpec spec = job();
  spec.node_timeout = seconds(5);
  member_ = Member(spec, node(), "0.1", now_);
  work();
  now_ += seconds(6);  // the timer was to come long before
  step(LinkDown{{LossKind::closed, "closed by the peer"}});
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  const std::string said = describe(got<MemberEnded>()->outcome.cause);
  EXPECT_TRUE(said.starts_with("node 1 (host b) was lost: its dlaunch did not run for ")) << said;
  EXPECT_TRUE(said.ends_with(" (stopped, or the machine was), and the others gave it up")) << said;
}

TEST_F(MemberTest, ANodeThatWasAwayAtTheEndEndsAsTheJobDid) {
  work();
  JobEnding ending;
  ending.fencing = 3;
  ending.outcome.exit_code = 7;
  EXPECT_TRUE(member_.was_in(ending));
  step(JobAlreadyEnded{ending});
  EXPECT_TRUE(told_group<StopWorkers>()) << "they belong to a world that is gone";
  EXPECT_FALSE(got<MemberEnded>());
  step(RoundStopped{0});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome, ending.outcome);
}

TEST_F(MemberTest, AnEarlierJobOfTheSameNameHasAnotherEnd) {
  JobEnding ending;
  ending.fencing = 3;
  EXPECT_FALSE(member_.was_in(ending)) << "it has been in no world yet";
  step(LinkUp{});
  NewWorld later = world(0);
  later.world.fencing = 4;
  hear(later);
  EXPECT_FALSE(member_.was_in(ending));
  step(JobAlreadyEnded{ending});
  EXPECT_FALSE(told_group<StopWorkers>());
  ending.fencing = 4;
  EXPECT_TRUE(member_.was_in(ending));
}

}  // namespace
}  // namespace dlaunch::agent
