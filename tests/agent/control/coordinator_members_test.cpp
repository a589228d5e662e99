// Nodes join, return, are rejected and are lost.

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/model/job_rules.h"
#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

// A quorum, or a lease, that two nodes count differently is none.
TEST_F(CoordinatorTest, AgentsWithOtherRulesAreRejected) {
  const auto refused = [&](const auto& change) {
    begin();
    JobSpec other = job_;
    change(other);
    Join one = join(1);
    one.rules = rules_of(other);
    from(7, one);
    const auto refusals = sent<Refused>();
    return refusals.empty() ? "" : refusals.front().second.why;
  };
  EXPECT_EQ(refused([](JobSpec&) {}), "");
  EXPECT_EQ(refused([](JobSpec& other) { other.spares = 2; }), "this job has --spares=0, not --spares=2");
  EXPECT_EQ(refused([](JobSpec& other) { other.node_timeout = seconds(60); }),
            "this job has --node-timeout=5, not --node-timeout=60");
  EXPECT_EQ(refused([](JobSpec& other) { other.policy.exclude_after = 3; }),
            "this job has --exclude-after=0, not --exclude-after=3");
  EXPECT_EQ(refused([](JobSpec& other) { other.policy.startup_grace = seconds(60); }),
            "this job has --startup-grace=0, not --startup-grace=60");
  EXPECT_EQ(refused([](JobSpec& other) {
              other.policy.final_codes = {3, 4};
            }),
            "this job has --no-restart-on=none, not --no-restart-on=3,4");
  job_.endpoints = {{"a", 1}, {"b", 2}};
  EXPECT_EQ(refused([](JobSpec& other) { std::swap(other.endpoints[0], other.endpoints[1]); }),
            "this job has --rdzv-endpoint=a:1,b:2, not --rdzv-endpoint=b:2,a:1");
}

TEST_F(CoordinatorTest, HostileJoinIsHarmless) {
  begin();
  Join one = join(1);
  one.round = UINT32_MAX;
  one.joined_once = true;
  from(7, one);
  ASSERT_EQ(sent<Refused>().size(), 1U);
  EXPECT_EQ(sent<Refused>().front().second.why, "there is no round 4294967295");
  one = join(1);
  one.host = "a\x1b[31mb\nc";
  from(8, one);
  for (const auto& action : last_) {
    const auto* message = std::get_if<LogMessage>(&action);
    EXPECT_TRUE(message == nullptr || message->text.find_first_of("\x1b\n") == std::string::npos);
  }
}

TEST_F(CoordinatorTest, NodeThatJoinsWhileItsWorkersStopDoesNotDelayOthers) {
  job_.min_nodes = 1;
  job_.last_call = Duration(0);
  begin();
  from(0, join(0));
  now_ += seconds(6);  // it knows of no earlier world, and not of all nodes that there was none
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(coordinator_->state(), Coordinator::State::running);
  Join late = join(1);
  late.stopped = false;
  from(8, late);
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
  from(8, Stopped{0});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::stopping);
}

TEST_F(CoordinatorTest, ALostNodeEndsTheJobAndIsNamed) {
  gather();
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::broken, "connection reset by peer"}});
  EXPECT_EQ(sent<StopRound>().size(), 1U);
  from(0, Stopped{0});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(describe(sent<End>()[0].second.outcome.cause),
            "node 1 (host host1) was lost: connection reset by peer");
}

TEST_F(CoordinatorTest, ReturningNodeGetsTheOutcomeOfAnEndingJob) {
  gather();
  Join back = join(1);
  back.joined_once = true;
  back.agent = 555;
  from(7, failed(0, 2));
  from(7, failed(0, 3));
  from(0, Stopped{0});
  from(7, Stopped{0});
  for (int i = 0; coordinator_->state() != Coordinator::State::ending && i < 5; ++i) {
    from(7, failed(coordinator_->round(), 2));
    from(0, Stopped{coordinator_->round()});
    from(7, Stopped{coordinator_->round()});
  }
  ASSERT_EQ(coordinator_->state(), Coordinator::State::ending);
  const Outcome outcome = ending();
  from(9, back);
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0], (std::pair<MemberId, End>{9, {outcome}}));
  EXPECT_TRUE(did<DropMember>());
  back.joined_once = false;
  from(10, back);
  EXPECT_EQ(sent<Refused>().size(), 1U) << "it was never in the job";
  back.joined_once = true;
  back.job_id = "another";
  from(11, back);
  EXPECT_EQ(sent<Refused>().size(), 1U);
}

TEST_F(CoordinatorTest, RejectedNodeGetsTheReason) {
  begin();
  const auto refusal = [&](Join wrong) {
    from(9, std::move(wrong));
    EXPECT_TRUE(did<DropMember>());
    return sent<Refused>().empty() ? "" : sent<Refused>()[0].second.why;
  };
  Join wrong = join(1);
  wrong.job_id = "other";
  EXPECT_EQ(refusal(wrong), "this is job 'j', not 'other'");
  wrong = join(1);
  JobSpec larger = job_;
  larger.nnodes = 3;
  wrong.rules = rules_of(larger);
  EXPECT_EQ(refusal(wrong), "this job has --nnodes=2, not --nnodes=3");
  EXPECT_EQ(refusal(join(2)), "--node-rank=2 is outside --nnodes=2");
  wrong = join(1);
  wrong.role = std::string(longest_role + 1, 'r');
  EXPECT_EQ(refusal(wrong), "its --role is longer than 255 bytes");
  from(0, join(0));
  wrong = join(0);
  wrong.agent = 7;
  EXPECT_EQ(refusal(wrong), "--node-rank=0 is taken by host host0");
  from(9, Done{0});
  EXPECT_EQ(sent<Refused>().size(), 1U);
}

}  // namespace
}  // namespace dlaunch::agent
