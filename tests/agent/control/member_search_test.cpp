// The node looks for the endpoint that leads.

#include <gtest/gtest.h>

#include "tests/agent/control/member_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

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
  const Failure& cause = got<MemberEnded>()->outcome.cause;
  EXPECT_EQ(cause.why, "found no node 0 at m:29500: connection reset by peer");
  EXPECT_TRUE(cause.remedy.starts_with(
      "check that dlaunch runs as node 0 on m (torchrun cannot join a dlaunch job), --master-addr"));
}

TEST_F(MemberTest, EarlyEndOfNode0IsRecognized) {
  step(LinkUp{});
  hear(Welcome{true, false, 1});
  step(LinkDown{{LossKind::closed, "closed by the peer"}});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why,
            "node 0 at m:29500 closed the connection before the job started");
}

TEST_F(MemberTest, RefusalIsFinalAndHasAReason) {
  step(LinkUp{});
  hear(Refused{"--node-rank=1 is taken by host c"});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(got<MemberEnded>()->outcome.cause.why,
            "node 0 at m:29500 refused this node: --node-rank=1 is taken by host c");
}

// A node that waits at an endpoint that does not lead.
class StayingMemberTest : public MemberTest {
 protected:
  StayingMemberTest() {
    member_ = Member(job_of_three(), node(), "0.1", now_);
    member_.begin();
  }
  static JobSpec job_of_three() {
    JobSpec several = job();
    several.endpoints = {{"a", 1}, {"b", 2}, {"c", 3}};
    several.node_timeout = seconds(5);
    return several;
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

// One node of the last world is missing: it is the leader's, unless that was a spare.
TEST_F(StayingMemberTest, ReportsForHowLongWorkersMayRunOnTheNodeThatIsMissing) {
  for (const bool is_spare : {false, true}) {
    member_ = Member(job_of_three(), node(), "0.1", now_);
    member_.begin();
    step(LinkUp{});
    hear(Welcome{true});
    NewWorld announced = world(0);
    announced.world.leader = 7;
    if (!is_spare) announced.world.members.push_back({0, 1, 0, "a", 7, 0});
    hear(announced);
    ASSERT_TRUE(told_group<StartWorkers>());
    EXPECT_EQ(told_group<StartWorkers>()->world.members.size(), 1U) << "its own";
    step(LinkDown{{LossKind::closed, "closed by the peer"}});
    step(LinkUp{});
    ASSERT_TRUE(said<Join>());
    EXPECT_GT(said<Join>()->rest, seconds(5));
    EXPECT_EQ(said<Join>()->lease, is_spare ? said<Join>()->rest : milliseconds(100));
  }
}

// It is connected, and does not prove the secret.
TEST_F(StayingMemberTest, GivesUpAnEndpointThatTakesTheConnectionAndSendsNothing) {
  const Duration patience = Member::connect_attempt(job_of_three()) + seconds(5);
  now_ += patience - milliseconds(1);
  step(MemberTimer{});
  EXPECT_FALSE(got<Disconnect>());
  EXPECT_EQ(got<ArmMemberTimer>()->at, now_ + milliseconds(1));
  now_ += milliseconds(1);
  step(MemberTimer{});
  EXPECT_TRUE(got<Disconnect>());
  ASSERT_TRUE(got<Dial>());
  EXPECT_EQ(got<Dial>()->endpoint, 1U);
  step(LinkUp{});
  hear(Welcome{true});
  now_ += seconds(1);
  hear(Heartbeat{});
  now_ += patience - seconds(4);
  step(MemberTimer{});
  EXPECT_FALSE(got<Disconnect>()) << "it has answered";
}

TEST_F(MemberTest, ASilentListenerIsNamedWhenTheWaitIsOver) {
  last_ = member_.begin();
  now_ += seconds(61);
  step(MemberTimer{});
  ASSERT_TRUE(got<MemberEnded>());
  EXPECT_EQ(
      got<MemberEnded>()->outcome.cause.why,
      "waited 1 min 0 s for node 0 at m:29500, which never answered: what listens there took the connection, "
      "and did not answer within 10 s");
}

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

}  // namespace
}  // namespace dlaunch::agent
