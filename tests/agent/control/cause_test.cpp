// What the coordinator says of a failure, and of nodes that do not come: at once, and whom it names at the
// end.
#include <gtest/gtest.h>

#include "agent/model/root_cause.h"
#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CauseTest : public CoordinatorTest {};

// Ranks 0 and 1 are on node 0, 2 and 3 on node 1.
Failed accuses(Failed failed, int rank) {
  failed.failure.blames_peer = true;
  failed.failure.blamed_rank = rank;
  failed.failure.blamed_for = "left the group";
  return failed;
}

TEST_F(CauseTest, AWorkerOnAnotherNodeThatIsAccusedHasAMomentToSayWhy) {
  job_.max_restarts = 0;
  gather();
  from(0, accuses(failed(0, 0), 2));
  EXPECT_TRUE(sent<StopRound>().empty());
  now_ += milliseconds(20);
  from(7, failed(0, 2));
  EXPECT_EQ(sent<StopRound>().size(), 2U);
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 2);
}

TEST_F(CauseTest, AWorkerThatIsAccusedAndGoesOnIsStoppedAfterThatMomentAndNamed) {
  job_.max_restarts = 0;
  gather();
  from(0, accuses(failed(0, 0), 2));
  from(0, Stopped{0});
  EXPECT_TRUE(sent<StopRound>().empty());
  now_ += blamed_rank_grace;
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<StopRound>().size(), 1U) << "the other node has stopped";
  EXPECT_EQ(sent<StopRound>().front().first, 7U);
  Failed suspect = failed(0, 2);
  suspect.failure.while_stopping = suspect.failure.ended_by_us = true;
  suspect.failure.exception = "thinking";
  suspect.failure.pid = 4711;
  from(7, suspect);
  from(7, Stopped{0});
  const Outcome outcome = ending();
  EXPECT_EQ(describe(outcome.cause),
            "rank 2 (local rank 0, node 1, host host1, pid 4711) left the group (its last line: thinking); "
            "rank 0 noticed it");
  EXPECT_EQ(outcome.exit_code, 3) << "of whom noticed it";
  ASSERT_EQ(outcome.others.size(), 1U);
  EXPECT_EQ(outcome.others[0].rank, 0);
}

// All reports together show which rank differs, also those that come after the accused one's.
TEST_F(CauseTest, AfterAMismatchOfCallsAllRanksAreAwaited) {
  job_.max_restarts = 0;
  gather();
  const auto reports = [this](int rank, int other) {
    const auto call = [](int of) {
      return "all_reduce(" + std::to_string(of == 2 ? 8 : 9) + " x float32, sum)";
    };
    Failed failure = accuses(failed(0, rank), other);
    failure.failure.tail = "train: rank " + std::to_string(rank) + ", all_reduce #5 of group default, peer " +
                           std::to_string(other) + " on b: the ranks call different operations: rank " +
                           std::to_string(other) + " calls " + call(other) + ", this rank " + call(rank);
    return failure;
  };
  from(0, reports(0, 2));
  from(7, reports(2, 0));
  EXPECT_TRUE(sent<StopRound>().empty()) << "ranks 1 and 3 run";
  from(0, reports(1, 2));
  from(7, reports(3, 2));
  from(0, Stopped{0});
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 2);
}

TEST_F(CauseTest, NoWaitIfTheBlamedRankHasEnded) {
  job_.max_restarts = 0;
  gather();
  from(7, Done{0});
  from(0, accuses(failed(0, 0), 2));
  EXPECT_FALSE(sent<StopRound>().empty()) << "its node is done";
}

TEST_F(CauseTest, LastStoppedNodeEndsTheWaitForTheBlamedRank) {
  job_.max_restarts = 0;
  gather();
  from(0, accuses(failed(0, 0), -1));
  from(0, Stopped{0});
  from(7, accuses(failed(0, 2), -1));
  from(7, Stopped{0});
  EXPECT_EQ(ending().cause.rank, 0);
}

TEST_F(CauseTest, AFailureOnAnotherNodeIsSaidAtOnce) {
  gather();
  Failed far = failed(0, 2);
  far.failure.node_rank = 1;
  far.failure.host = "host1";
  far.failure.local_rank = 0;
  far.failure.tail = "the reason";
  from(7, far);
  EXPECT_EQ(words(),
            (std::vector<std::string>{"rank 2 (local rank 0, node 1, host host1) exited with code 3; "
                                      "stopping the workers of all nodes: SIGTERM, at most 30 s"}));
  from(0, Stopped{0});
  from(7, Stopped{0});
  ASSERT_EQ(words().size(), 2U);
  EXPECT_EQ(words()[0], "the last lines that rank 2 wrote to stderr:\n  | the reason");
  EXPECT_TRUE(words()[1].starts_with("restarting all 4 workers (restart 1 of 1) because rank 2 "));
}

TEST_F(CauseTest, RefusedNodeIsNamedAtTheDeadline) {
  begin();
  from(0, join(0));
  for (int i = 0; i < 2; ++i) {
    Join wrong = join(1);
    JobSpec larger = job_;
    larger.nnodes = 3;
    wrong.rules = rules_of(larger);
    from(8, wrong);
  }
  last_ = coordinator_->step(
      now_, AgentRefused{"an agent at 10.0.0.7", "it has another secret", "give it the secret"});
  now_ += seconds(60);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_EQ(ending().cause.why,
            "node 1 of 2 did not join at m:29500 within 1 min 0 s (--join-timeout); refused meanwhile: host "
            "host1 (this job has "
            "--nnodes=2, not --nnodes=3), an agent at 10.0.0.7 (it has another secret)");
  EXPECT_EQ(ending().cause.remedy, "give it the secret") << "of the last one";
}

TEST_F(CauseTest, ANodeThatCannotStartItsProgramEndsTheWait) {
  begin();
  from(0, join(0));
  Join unfit = join(1);
  unfit.unfit = "cannot start './probe': no such file";
  from(7, unfit);
  EXPECT_TRUE(sent<NewWorld>().empty());
  EXPECT_EQ(sent<Refused>().front().first, 7U);
  EXPECT_EQ(describe(ending().cause), "node 1 (host host1): cannot start './probe': no such file");
  EXPECT_EQ(ending().exit_code, 1);
}

TEST_F(CauseTest, UnfitNodeIsOnlyReportedIfOtherNodesSuffice) {
  job_.min_nodes = 1;
  begin();
  Join unfit = join(1);
  unfit.unfit = "cannot start './probe': no such file";
  from(7, unfit);
  EXPECT_TRUE(sent<End>().empty());
  EXPECT_EQ(words(), std::vector<std::string>{"node 1 (host host1): cannot start './probe': no such file"});
}

TEST_F(CauseTest, SuspendedNodeBlamesNoOther) {
  job_.max_restarts = 0;
  gather();
  now_ += seconds(6);  // the timer was to come long before
  last_ = coordinator_->step(now_, MemberLost{7, {LossKind::closed, "closed by the peer"}});
  from(0, Stopped{0});
  const Failure cause = ending().cause;
  EXPECT_EQ(cause.node_rank, 0);
  EXPECT_TRUE(describe(cause).starts_with("node 0 (host host0) was lost: its dlaunch did not run for "))
      << describe(cause);
  EXPECT_TRUE(cause.why.ends_with("(stopped, or the machine was), and node 1 (host host1) gave it up"))
      << cause.why;
}

}  // namespace
}  // namespace dlaunch::agent
