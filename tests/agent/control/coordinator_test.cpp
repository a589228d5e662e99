#include <gtest/gtest.h>

#include <algorithm>

#include "agent/model/job_rules.h"
#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_F(CoordinatorTest, TheWorldComesWhenAllAreInAndRanksFollowNodeRanks) {
  begin();
  from(7, join(1, 3));
  EXPECT_TRUE(sent<NewWorld>().empty());
  from(0, join(0, 2));
  const auto worlds = sent<NewWorld>();
  ASSERT_EQ(worlds.size(), 2U);
  const World& whole = worlds[0].second.world;  // as the node has it that serves the store
  EXPECT_EQ(whole.world_size, 5);
  EXPECT_EQ(whole.members,
            (std::vector<WorldMember>{{0, 2, 0, "host0", 100, 0, 0, 5}, {1, 3, 2, "host1", 101, 1, 2, 5}}));
  World part = whole;
  part.members.erase(part.members.begin());
  EXPECT_EQ(worlds[1].second.world, part);
  // The store must be there before a worker can look for it.
  const auto opens = std::find_if(last_.begin(), last_.end(), [](const auto& action) {
    return std::holds_alternative<OpenStore>(action);
  });
  const auto tells = std::find_if(last_.begin(), last_.end(), [](const auto& action) {
    const auto* to = std::get_if<ToMember>(&action);
    return to && std::holds_alternative<NewWorld>(to->message);
  });
  EXPECT_LT(opens, tells);
}

TEST_F(CoordinatorTest, EachRolesWorkersAreCountedByThemselves) {
  job_.nnodes = 4;
  begin();
  const std::vector<std::string> roles{"reader", "trainer", "reader", "trainer"};
  const std::vector<int> slots{2, 3, 1, 4};
  for (const int rank : {2, 3, 1, 0}) {  // the order of arrival does not matter
    Join one = join(rank, slots[static_cast<std::size_t>(rank)]);
    one.role = roles[static_cast<std::size_t>(rank)];
    from(rank == 0 ? local_member : static_cast<MemberId>(rank), one);
  }
  const auto worlds = sent<NewWorld>();
  ASSERT_EQ(worlds.size(), 4U);
  EXPECT_EQ(worlds[0].second.world.members, (std::vector<WorldMember>{{0, 2, 0, "host0", 100, 0, 0, 3},
                                                                      {1, 3, 2, "host1", 101, 1, 0, 7},
                                                                      {2, 1, 5, "host2", 102, 2, 2, 3},
                                                                      {3, 4, 6, "host3", 103, 3, 3, 7}}));
}

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

TEST_F(CoordinatorTest, NodesAreNotifiedOfMissingNodes) {
  job_.nnodes = 3;
  begin();
  from(0, join(0));
  from(7, join(1));
  now_ += seconds(5);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<Notice>().size(), 1U) << "its own member hears it anyhow";
  EXPECT_EQ(sent<Notice>().front().second.text,
            "waiting for node 2 of 3 at m:29500 (5 s so far; giving up in 55 s)");
  EXPECT_EQ(coordinator_->view(now_).waiting_for, "node 2 of 3");
}

TEST_F(CoordinatorTest, AFailureRestartsEveryoneOnceAllHaveStopped) {
  gather();
  from(7, failed(0, 3));
  EXPECT_EQ(sent<StopRound>().size(), 2U);
  from(7, Stopped{0});
  EXPECT_TRUE(sent<NewWorld>().empty());
  from(0, Stopped{0});
  const auto worlds = sent<NewWorld>();
  ASSERT_EQ(worlds.size(), 2U);
  EXPECT_EQ(worlds[0].second.world.round, 1U);
  EXPECT_EQ(worlds[0].second.world.restarts_used, 1);
}

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

TEST_F(CoordinatorTest, ANodeThatDoesNotStopInTimeIsNamed) {
  gather();
  from(7, failed(0, 3));
  from(7, Stopped{0});
  now_ += job_.stop_timeout.usual + Coordinator::end_margin;
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<End>().size(), 2U);
  EXPECT_EQ(describe(sent<End>()[0].second.outcome.cause),
            "node 0 (host host0) was lost: it did not stop its workers in time");
}

TEST_F(CoordinatorTest, NodeThatStopsSlowlyIsNamed) {
  gather();
  from(7, failed(0, 3));
  from(7, Stopped{0});
  now_ += seconds(5);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_TRUE(did<LogMessage>());
  EXPECT_EQ(std::get<LogMessage>(last_[0]).text,
            "waiting for the workers of node 0 (host host0) to stop (5 s so far; giving up in 55 s)");
}

TEST_F(CoordinatorTest, AFailureOfAnOldRoundIsStale) {
  gather();
  from(7, failed(0, 3));
  from(0, Stopped{0});
  from(7, Stopped{0});
  from(7, failed(0, 2));
  EXPECT_TRUE(last_.empty());
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
}

TEST_F(CoordinatorTest, TheJobIsDoneWhenEveryNodeIs) {
  gather();
  from(0, Done{0});
  EXPECT_TRUE(sent<End>().empty());
  from(7, Done{0});
  ASSERT_EQ(sent<End>().size(), 2U);
  EXPECT_EQ(sent<End>()[0].second.outcome.exit_code, 0);
}

TEST_F(CoordinatorTest, ANodeThatWasDoneStartsAgainWithTheOthers) {
  gather();
  from(0, Done{0});
  from(7, failed(0, 3));
  from(7, Stopped{0});
  EXPECT_EQ(sent<NewWorld>().size(), 2U);
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

TEST_F(CoordinatorTest, ProbeIsAnsweredWithoutSideEffects) {
  job_.endpoints = {{"m", 29500}, {"b", 29500}};
  const auto answer = [&](const std::string& job_id) {
    from(99, Ask{job_id});
    EXPECT_TRUE(did<DropMember>());
    return sent<Welcome>();
  };
  begin();
  ASSERT_EQ(answer("j").size(), 1U);
  EXPECT_FALSE(answer("j")[0].second.leads);
  EXPECT_FALSE(answer("j")[0].second.elsewhere);
  last_ = coordinator_->step(now_, FollowsAnother{true});
  EXPECT_TRUE(answer("j")[0].second.elsewhere);
  last_ = coordinator_->step(now_, FollowsAnother{false});
  from(0, join(0));
  EXPECT_FALSE(answer("j")[0].second.leads) << "who asks is no member";
  from(7, join(1));
  EXPECT_TRUE(answer("j")[0].second.leads);
  EXPECT_TRUE(sent<StopRound>().empty());
  EXPECT_TRUE(answer("another").empty());
  ASSERT_EQ(sent<Refused>().size(), 1U);
  from(7, Ask{"j"});
  EXPECT_TRUE(last_.empty() || !did<DropMember>()) << "a member has no reason to ask";
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

TEST_F(CoordinatorTest, NoticeOfOneNodesEndIsPassedOnToTheOthersOnce) {
  job_.nnodes = 3;
  begin();
  from(0, join(0));
  from(7, join(1));
  from(7, Preempt{0});
  EXPECT_TRUE(sent<Preempt>().empty()) << "nothing runs";
  from(8, join(2));
  from(7, Preempt{5});
  EXPECT_TRUE(sent<Preempt>().empty()) << "of another round";
  from(7, Preempt{0, "somebody else"});
  const Preempt told{0, "node 1 (host host1)"};
  EXPECT_EQ(sent<Preempt>(), (std::vector<std::pair<MemberId, Preempt>>{{0, told}, {8, told}}));
  from(7, Preempt{0});
  from(8, Preempt{0});
  EXPECT_TRUE(sent<Preempt>().empty()) << "all know";
}

TEST_F(CoordinatorTest, FailureAfterNoticeIsNoFailure) {
  gather();
  from(7, Preempt{0});
  from(0, failed(0, 0));
  EXPECT_EQ(sent<StopRound>().size(), 2U);
  from(0, Stopped{0});
  from(7, Stopped{0});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.kind, FailureKind::signal) << "and no restart, though one was left";
  EXPECT_EQ(outcome.exit_code, 143);
  EXPECT_EQ(describe(outcome.cause), "node 1 (host host1) was stopped by SIGTERM");
}

TEST_F(CoordinatorTest, PreemptedNodeLeavesIfTheJobMayShrink) {
  job_.nnodes = 3;
  job_.min_nodes = 2;
  begin();
  from(0, join(0));
  from(7, join(1));
  from(8, join(2));
  from(7, Preempt{0});
  from(8, failed(0, 5));
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].first, 7U);
  from(7, Stopped{0});
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::closed, "it has left"}});
  from(0, Stopped{0});
  from(8, Stopped{0});
  ASSERT_EQ(sent<NewWorld>().size(), 2U);
  EXPECT_EQ(sent<NewWorld>()[0].second.world.restarts_used, 0);
  EXPECT_EQ(sent<NewWorld>()[0].second.world.nodes, 2);
  from(8, failed(1, 3));
  from(0, Stopped{1});
  from(8, Stopped{1});
  ASSERT_EQ(sent<NewWorld>().size(), 2U);
  EXPECT_EQ(sent<NewWorld>()[0].second.world.restarts_used, 1) << "of that round nobody gave notice";
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

TEST_F(CoordinatorTest, MissingNodeIsNamedAtTheDeadline) {
  begin();
  from(0, join(0));
  now_ += seconds(10);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_TRUE(did<LogMessage>());
  EXPECT_EQ(std::get<LogMessage>(last_[0]).text,
            "waiting for node 1 of 2 at m:29500 (10 s so far; giving up in 50 s)");
  now_ += seconds(50);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].second.outcome.exit_code, 1);
  EXPECT_EQ(sent<End>()[0].second.outcome.cause.why,
            "node 1 of 2 did not join at m:29500 within 1 min 0 s (--join-timeout); start dlaunch there, "
            "or see in its output there why it does not reach this address");
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

// --- hangs ---

class HangTest : public CoordinatorTest {
 protected:
  HangTest() {
    job_.hang_timeout = seconds(10);
    gather();
  }
  // Rank 3 of the two nodes' four is missing.
  static Progress stuck(std::uint32_t round, int first_rank, Duration quiet) {
    Progress progress{round, quiet, true, {{1, "default", 4, {{0, 1, 4}}, {}}}};
    for (int rank = first_rank; rank < first_rank + 2; ++rank) {
      RankProgress rank_progress;
      rank_progress.rank = rank;
      rank_progress.done = 7;
      rank_progress.entered = rank == 3 ? 7 : 8;
      rank_progress.inside = rank != 3;
      rank_progress.operation = page::Operation::all_reduce;
      rank_progress.waited = rank == 3 ? Duration(0) : Duration(seconds(11));
      progress.groups[0].here.push_back(rank_progress);
    }
    return progress;
  }
  void hang(std::uint32_t round) {
    from(0, stuck(round, 0, seconds(10)));
    EXPECT_FALSE(did<LogMessage>());
    from(7, stuck(round, 2, seconds(10)));
  }
  std::vector<std::string> said() const {
    std::vector<std::string> found;
    for (const auto& action : last_) {
      if (const auto* message = std::get_if<LogMessage>(&action)) found.push_back(message->text);
    }
    return found;
  }
  static constexpr const char* why =
      "nothing has moved for 10 s (--hang-timeout): rank 3 (local rank 1, node 1, host host1) never entered "
      "all_reduce #8 "
      "of group default; the other 3 have waited 11 s";
};

TEST_F(HangTest, IsSaidAndStopsTheRoundAndRestartsIt) {
  hang(0);
  EXPECT_EQ(said(), std::vector<std::string>{why});
  const auto stops = sent<StopRound>();
  ASSERT_EQ(stops.size(), 2U);
  EXPECT_EQ(stops[0].second.why, why);
  from(0, Stopped{0});
  from(7, Stopped{0});
  ASSERT_EQ(sent<NewWorld>().size(), 2U);
  EXPECT_EQ(sent<NewWorld>()[0].second.world.restarts_used, 1);
  EXPECT_EQ(said(), std::vector<std::string>{"restarting all 4 workers (restart 1 of 1) because " +
                                             std::string(why)});
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
}

TEST_F(HangTest, WithoutARestartItIsTheCauseOfTheEnd) {
  hang(0);
  from(0, Stopped{0});
  from(7, Stopped{0});
  hang(1);
  // The others' workers fall because the first are stopped.
  from(7, failed(1, 2));
  from(0, Stopped{1});
  from(7, Stopped{1});
  const Outcome outcome = ending();
  EXPECT_EQ(outcome.cause.kind, FailureKind::hang);
  EXPECT_EQ(outcome.cause.rank, 3);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.failure_count, 2);
  EXPECT_EQ(outcome.rank_positions,
            std::vector<std::string>{"rank 3 never entered all_reduce #8 of group default; the "
                                     "other 3 have waited 11 s"});
}

TEST_F(HangTest, ReportsOfAnotherRoundAreIgnored) {
  from(0, stuck(0, 0, seconds(10)));
  from(7, stuck(1, 2, seconds(10)));
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
  from(7, failed(0, 2));
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(coordinator_->round(), 1U);
  from(7, stuck(1, 2, seconds(10)));
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running) << "node 0 has told nothing of this round";
}

TEST_F(CoordinatorTest, PositionsOfRanksAreReportedWithAFailure) {
  job_.max_restarts = 1;
  gather();
  from(7, failed(0, 3));
  RankProgress waits;
  waits.entered = 2;
  waits.done = 1;
  waits.operation = page::Operation::barrier;
  waits.waited = milliseconds(5);
  RankProgress fell;
  fell.rank = 3;
  fell.entered = fell.done = 1;
  from(0, Progress{0, Duration(0), false, {{1, "g", 2, {{0, 3, 2}}, {waits}}}});
  from(7, Progress{0, Duration(0), false, {{1, "g", 2, {{0, 3, 2}}, {fell}}}});
  from(0, Stopped{0});
  from(7, Stopped{0});
  const auto told = std::find_if(last_.begin(), last_.end(), [](const auto& action) {
    const auto* message = std::get_if<LogMessage>(&action);
    return message != nullptr &&
           message->text == "rank 3 never entered barrier #2 of group g; the other one has waited 5 ms";
  });
  EXPECT_NE(told, last_.end());
}

// It came before anybody led here, and goes on to the next endpoint; that its connection has ended is not
// heard of yet.
TEST_F(CoordinatorTest, NodesSilentSinceLeadershipBeganJoinNoWorld) {
  job_.nnodes = 3;
  job_.endpoints = {{"a", 1}, {"b", 1}, {"c", 1}};
  begin();
  const auto come = [this](MemberId member, int node_rank, bool stays) {
    Join join = this->join(node_rank);
    join.stays = stays;
    from(member, join);
  };
  const auto answer = [this](MemberId member) { from(member, Heartbeat{now_.time_since_epoch().count()}); };
  come(7, 2, false);
  EXPECT_FALSE(sent<Welcome>().at(0).second.leads);
  answer(7);  // to what was said before
  now_ += milliseconds(1);
  come(0, 0, true);
  come(8, 1, true);
  EXPECT_TRUE(sent<Welcome>().back().second.leads);
  answer(8);
  EXPECT_TRUE(sent<NewWorld>().empty());

  // It comes again by a connection of its own, and before the end of the old one is seen.
  come(9, 2, false);
  EXPECT_FALSE(did<CoordinatorEnded>());
  EXPECT_TRUE(sent<NewWorld>().empty());
  EXPECT_TRUE(sent<Refused>().empty());
  answer(9);
  EXPECT_EQ(sent<NewWorld>().size(), 3U);
}

// Of a world that this node, or one that is here, has led, nobody is missing.
TEST_F(CoordinatorTest, ALostLeaderIsOneThatIsNotHere) {
  job_.nnodes = 3;
  job_.endpoints = {{"a", 1}, {"b", 1}, {"c", 1}};
  const auto lost_after = [this](AgentId leader) {
    begin();
    std::vector<std::string> lost;
    for (const MemberId member : {7U, 8U}) {
      Join join = this->join(static_cast<int>(member) - 6);
      join.stays = join.joined_once = true;
      join.nodes = 3;
      join.leader = leader;
      join.leader_host = "old";
      from(member, join);
      for (const auto& action : last_) {
        const auto* event = std::get_if<Event>(&action);
        if (event && event->kind == EventKind::lost) lost.push_back(event->host + ": " + event->text);
      }
    }
    EXPECT_EQ(coordinator_->state(), Coordinator::State::gathering);
    return lost;
  };
  EXPECT_EQ(lost_after(555), std::vector<std::string>{"old: it was the leader"});
  EXPECT_EQ(lost_after(102), std::vector<std::string>{});
  EXPECT_EQ(lost_after(100), std::vector<std::string>{}) << "this node's own agent, which has not come yet";
}

TEST_F(CoordinatorTest, ANodeThatFailedTooOftenIsLeftOutAndHearsWhy) {
  job_.min_nodes = 1;
  job_.max_restarts = 5;
  job_.policy.exclude_after = 2;
  gather();
  std::vector<std::pair<MemberId, End>> ends;
  const auto note_ends = [&] {
    for (const auto& end : sent<End>()) ends.push_back(end);
  };
  for (std::uint32_t round = 0; round < 2; ++round) {
    EXPECT_TRUE(ends.empty());
    ASSERT_EQ(coordinator_->round(), round);
    Failed of_node_1 = failed(round, 2);
    of_node_1.failure.host = "host1";
    from(7, of_node_1);
    note_ends();
    for (const MemberId member : {0U, 7U}) {
      from(member, Stopped{round});
      note_ends();
    }
  }
  ASSERT_EQ(ends.size(), 1U);
  EXPECT_EQ(ends[0].first, 7U);
  const Outcome& outcome = ends[0].second.outcome;
  EXPECT_TRUE(outcome.failed);
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_EQ(outcome.cause.host, "host1");
  EXPECT_EQ(outcome.no_restart, "this node is excluded: it failed 2 times (--exclude-after)");
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running) << "the others go on";
}

// By the address of whom nothing of an old round comes to the next one's store.
class FencedHostsTest : public CoordinatorTest {
 protected:
  FencedHostsTest() {
    job_.nnodes = 3;
    job_.min_nodes = 1;
    job_.node_timeout = seconds(5);
    begin();
    from(0, join(0));
    come(7, 1, "10.0.0.2");
    come(8, 2, "10.0.0.3");
    EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
  }
  void come(MemberId member, int node_rank, const std::string& address) {
    last_ = coordinator_->step(now_, FromMember{member, join(node_rank), address});
  }
  void on_node_lost(MemberId member) {
    last_ = coordinator_->step(now_, MemberLost{member, {LossKind::closed, "gone"}});
  }
  // From the store of the newest round; the others have stopped for it.
  std::set<std::string> blocked_hosts() {
    const std::uint32_t round = next_round_++;
    for (const MemberId member : {0U, 7U, 8U, 9U}) {
      if (const auto* open = opened()) return open->blocked_hosts;
      if (round > 0) from(member, Stopped{round - 1});
    }
    now_ += milliseconds(100);  // the keepers of agents that have ended act at once
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    const auto* open = opened();
    EXPECT_TRUE(open) << "round " << round;
    return open ? open->blocked_hosts : std::set<std::string>{"none was opened"};
  }

 private:
  const OpenStore* opened() const {
    for (const auto& action : last_) {
      if (const auto* open = std::get_if<OpenStore>(&action)) return open;
    }
    return nullptr;
  }
  std::uint32_t next_round_ = 0;
};

TEST_F(FencedHostsTest, AreShutOut) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
}

TEST_F(FencedHostsTest, AreLetInAgainWithTheirNode) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
  come(9, 1, "10.0.0.2");
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
}

TEST_F(FencedHostsTest, AreLiftedIfANodeOfThatHostIsPresent) {
  come(9, -1, "10.0.0.2");
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{});
}

TEST_F(FencedHostsTest, AreForgottenWhenNothingCanRunThereAnyMore) {
  on_node_lost(7);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.2"});
  now_ += seconds(22);
  on_node_lost(8);
  EXPECT_EQ(blocked_hosts(), std::set<std::string>{"10.0.0.3"});
}

// From when the next world may begin without a node that has not said that its workers are gone.
class FenceOfTheNextWorld : public CoordinatorTest {
 protected:
  FenceOfTheNextWorld() {
    job_.nnodes = 3;
    job_.min_nodes = 2;
    job_.node_timeout = seconds(16);
    begin();
    from(0, join(0));
    from(7, join(1));
    from(8, join(2));
    EXPECT_EQ(sent<NewWorld>().size(), 3U);
    began_ = now_;
  }
  // The others have stopped at once.
  void on_node_lost(bool silent) {
    last_ = coordinator_->step(now_, MemberLost{8, {silent ? LossKind::silent : LossKind::closed, "gone"}});
    from(0, Stopped{0});
    from(7, Stopped{0});
    EXPECT_TRUE(sent<NewWorld>().empty());
  }
  bool begins_at(Duration after) {
    now_ = began_ + after - milliseconds(1);
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    EXPECT_TRUE(sent<NewWorld>().empty()) << "too early";
    now_ = began_ + after;
    last_ = coordinator_->step(now_, CoordinatorTimer{});
    return sent<NewWorld>().size() == 2;
  }
  TimePoint began_;
};

TEST_F(FenceOfTheNextWorld, IsTheLastMomentOfItsKeeperAndItsWorkersDeath) {
  now_ += milliseconds(300);
  on_node_lost(true);
  EXPECT_TRUE(begins_at(seconds(16 + 2 + 1)));
}

TEST_F(FenceOfTheNextWorld, IsShortIfItsAgentHasEnded) {
  now_ += milliseconds(300);
  on_node_lost(false);
  EXPECT_TRUE(begins_at(milliseconds(300 + 100)));
}

TEST_F(FenceOfTheNextWorld, IsNotForANodeThatIsBack) {
  Join back = join(2);
  back.joined_once = true;
  back.stopped = false;
  on_node_lost(true);
  from(9, back);
  EXPECT_TRUE(sent<NewWorld>().empty());
  now_ += seconds(30);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_TRUE(sent<NewWorld>().empty()) << "its workers still run";
  from(9, Stopped{0});
  EXPECT_EQ(sent<NewWorld>().size(), 3U);
}

// A member sends a beat at v, which is heard at h: for any two machines' clocks, and any time under way.
TEST(LeaseRules, TheNextWorldBeginsAfterTheLastMomentOfEveryLease) {
  for (const Duration timeout : {Duration(milliseconds(500)), Duration(seconds(2)), Duration(seconds(60))}) {
    const LeaseRules rules(timeout);
    const TimePoint v{seconds(1000)};
    for (const Duration under_way : {Duration(0), timeout / 3, 2 * timeout}) {
      const TimePoint h = v + under_way;
      EXPECT_LT(rules.last_moment(v, rules.grant(h, TimePoint::max())), rules.gone_if_silent(h));
      for (const Duration left : {-timeout, -timeout / 8, Duration(0), timeout / 8, timeout, 3 * timeout}) {
        const TimePoint sure = h + left;  // nobody else can lead until then
        const TimePoint end = rules.last_moment(v, rules.grant(h, sure));
        EXPECT_LE(rules.grant(h, sure), timeout);
        if (rules.grant(h, sure) == Duration(0)) continue;
        // The one that both majorities share heard the leader at its stamp or later.
        EXPECT_LT(end, rules.gone_with_leader(sure - timeout));
        EXPECT_LT(end, rules.gone_if_elected(sure));
      }
    }
  }
  EXPECT_FALSE(LeaseRules(Duration(0)).exist());
}

}  // namespace
}  // namespace dlaunch::agent
