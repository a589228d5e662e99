// Worlds form, stop and restart.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

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
  EXPECT_EQ(worlds[1].second.world, whole) << "the leader's entry and its own";
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

// Nodes without ranks of their own, and one of them will be a spare.
class SpareTest : public CoordinatorTest {
 protected:
  SpareTest() {
    job_.spares = 1;
    job_.node_timeout = Duration(0);  // nothing of an earlier world is waited for
    begin();
  }
  void come(MemberId member) {
    Join one = join(static_cast<int>(member));
    one.node_rank = -1;
    from(member, one);
  }
  // Of the members that the latest worlds name.
  std::map<MemberId, std::vector<AgentId>> agents() const {
    std::map<MemberId, std::vector<AgentId>> found;
    for (const auto& [member, announced] : sent<NewWorld>()) {
      std::vector<AgentId>& named = found[member];
      for (const WorldMember& one : announced.world.members) named.push_back(one.agent);
    }
    return found;
  }
  using Agents = std::map<MemberId, std::vector<AgentId>>;
};

TEST_F(SpareTest, IsToldWhetherTheLeaderIsOneToo) {
  come(0);
  come(7);
  EXPECT_EQ(agents(), (Agents{{0, {100, 107}}, {7, {100, 107}}}));
  come(8);
  EXPECT_EQ(agents(), (Agents{{8, {100}}}));
}

TEST_F(SpareTest, ThatLeadsIsNoMemberForAnyNode) {
  come(7);
  come(8);
  EXPECT_EQ(agents(), (Agents{{7, {107}}, {8, {108}}}));
  come(9);
  EXPECT_EQ(agents(), (Agents{{9, {}}}));
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
      "all_reduce #8 of group default; the other 3 have waited 11 s";
};

class HangNoteTest : public HangTest {
 protected:
  explicit HangNoteTest(Duration hang_timeout = {}) {
    job_.hang_timeout = hang_timeout;
    job_.hang_note = seconds(60);
    gather();
  }
  // Both nodes report that stall.
  std::vector<std::string> report(Duration stall) {
    from(0, stuck(0, 0, stall));
    std::vector<std::string> all = said();
    from(7, stuck(0, 2, stall));
    for (std::string& line : said()) all.push_back(std::move(line));
    return all;
  }
  static std::vector<std::string> note(const std::string& how_long) {
    return {
        "nothing has moved for " + how_long +
            ": rank 3 (local rank 1, node 1, host host1) never entered all_reduce #8 of group default; the "
            "other 3 have waited 11 s",
        "the stacks: dlaunch dump j on each host; --hang-timeout ends such a job"};
  }
};

TEST_F(HangNoteTest, IsRepeatedAndTheJobGoesOn) {
  EXPECT_EQ(report(seconds(59)), std::vector<std::string>{});
  EXPECT_FALSE(did<Event>());
  EXPECT_EQ(report(seconds(60)), note("1 min 0 s"));
  EXPECT_TRUE(did<Event>());
  EXPECT_EQ(report(seconds(65)), std::vector<std::string>{});
  EXPECT_EQ(report(seconds(300)), note("5 min 0 s"));
  EXPECT_EQ(coordinator_->state(), Coordinator::State::running);
}

TEST_F(HangNoteTest, IsRepeatedWhenTheUserStopsTheJob) {
  report(seconds(20));
  Failure stopped;
  stopped.kind = FailureKind::signal;
  stopped.status = {ExitStatus::How::signaled, SIGTERM, false};
  from(0, Leave{stopped});
  const std::vector<std::string> all = said();
  ASSERT_GE(all.size(), 1U);
  EXPECT_EQ(all[0], note("20 s")[0]);
  for (const std::string& line : all) EXPECT_EQ(line.find("dlaunch dump"), std::string::npos) << "too late";
}

// The node of the missing rank is asked for it.
TEST_F(HangNoteTest, TheStackOfTheMissingRankFollowsOnce) {
  report(seconds(60));
  EXPECT_EQ(sent<StackRequest>(), (std::vector<std::pair<MemberId, StackRequest>>{{7, {0, 3}}}));
  Progress with_stack = stuck(0, 2, seconds(65));
  with_stack.groups[0].here[1].stack = "#0 load(int)\n#1 main\x1b[2J";
  from(7, with_stack);
  ASSERT_EQ(said().size(), 3U);
  EXPECT_EQ(said()[0], "the main thread of rank 3 is in");
  EXPECT_EQ(said()[1], "  #0 load(int)");
  EXPECT_EQ(said()[2].find('\x1b'), std::string::npos) << "another node's text";
  from(7, with_stack);
  EXPECT_TRUE(said().empty());
  EXPECT_EQ(report(seconds(300)), note("5 min 0 s"));
  EXPECT_EQ(sent<StackRequest>().size(), 1U) << "it may be elsewhere by now";
  Failure stopped;
  stopped.kind = FailureKind::signal;
  stopped.status = {ExitStatus::How::signaled, SIGTERM, false};
  from(0, Leave{stopped});
  ASSERT_GE(said().size(), 3U);
  EXPECT_EQ(said()[1], "the main thread of rank 3 is in") << "what is known at the end";
}

class HangNoteBeforeTimeoutTest : public HangNoteTest {
 protected:
  HangNoteBeforeTimeoutTest() : HangNoteTest(seconds(600)) {}
};

TEST_F(HangNoteBeforeTimeoutTest, NamesTheTimeThatIsLeft) {
  EXPECT_EQ(report(seconds(60)).back(),
            "the stacks: dlaunch dump j on each host; --hang-timeout ends the job after 10 min 0 s");
}

TEST_F(HangNoteTest, AStopOfAJobThatMovesIsNotExplained) {
  report(seconds(20));
  from(7, stuck(0, 2, Duration(0)));
  Failure stopped;
  stopped.kind = FailureKind::signal;
  stopped.status = {ExitStatus::How::signaled, SIGTERM, false};
  from(0, Leave{stopped});
  for (const std::string& line : said()) EXPECT_EQ(line.find("nothing has moved"), std::string::npos) << line;
}

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

// --- the workers' MPI ---

TEST_F(CoordinatorTest, AnMpiBarrierIsOverWhenBothNodesHaveCome) {
  gather();
  from(0, PmiEnter{0, 0, {{"a", "1"}}});
  EXPECT_TRUE(sent<PmiRelease>().empty());
  from(7, PmiEnter{0, 0, {{"b", "2"}}});
  const PmiRelease release{0, 0, {{"a", "1"}, {"b", "2"}}, true};
  EXPECT_EQ(sent<PmiRelease>(), (std::vector<std::pair<MemberId, PmiRelease>>{{0, release}, {7, release}}));
}

TEST_F(CoordinatorTest, ARankThatReturned0WhileOthersStartMpiIsTheCause) {
  job_.max_restarts = 0;
  gather();
  from(7, PmiEnter{0, 0, {}, true, 3});
  EXPECT_TRUE(sent<StopRound>().empty()) << "nobody needs it yet";
  from(0, PmiEnter{0, 0});
  EXPECT_EQ(sent<StopRound>().size(), 2U);
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(
      describe(ending().cause),
      "rank 3 (local rank 1, node 1, host host1) returned 0, and other ranks wait for it in MPI_Init or "
      "MPI_Finalize");
}

TEST_F(CoordinatorTest, MpiThatNeedsTooMuchRoomEndsTheRound) {
  job_.max_restarts = 0;
  gather();
  from(7, PmiEnter{0, 0, {{"k", std::string(most_pmi_bytes, 'v')}}});
  EXPECT_EQ(sent<StopRound>().size(), 2U);
}

TEST_F(CoordinatorTest, ANewRoundHasItsOwnMpi) {
  gather();
  from(0, PmiEnter{0, 0, {{"a", "1"}}});
  from(7, failed(0, 2));
  from(0, Stopped{0});
  from(7, Stopped{0});
  ASSERT_EQ(coordinator_->round(), 1U);
  from(7, PmiEnter{1, 0});
  EXPECT_TRUE(sent<PmiRelease>().empty());
  from(0, PmiEnter{1, 0});
  EXPECT_EQ(sent<PmiRelease>().front().second, (PmiRelease{1, 0, {}, true}));
}

}  // namespace
}  // namespace dlaunch::agent
