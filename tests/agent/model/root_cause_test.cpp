#include "agent/model/root_cause.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;

TimedFailure fell(int at_ms, std::string last_words = "", bool while_stopping = false) {
  TimedFailure one;
  one.when = TimePoint(milliseconds(at_ms));
  one.failure.kind = FailureKind::worker;
  one.failure.tail = std::move(last_words);
  one.failure.blames_peer = output_blames_peer(one.failure);
  one.failure.while_stopping = while_stopping;
  return one;
}
const char* const victim = "RuntimeError: Connection closed by peer";

TEST(RootCause, TheProgramsErrorExplainsAnExit) {
  Failure failure = fell(10, "step 3\ntrain: cannot read /data: Permission denied").failure;
  failure.rank = 1;
  failure.status = {ExitStatus::How::exited, 4, false};
  EXPECT_EQ(describe_with_error(failure),
            describe(failure) + ": train: cannot read /data: Permission denied");
  failure.tail = "step 3";
  EXPECT_EQ(describe_with_error(failure), describe(failure)) << "no error";
  failure.tail = victim;
  EXPECT_EQ(describe_with_error(failure), describe(failure)) << "another rank's";
  failure.tail = "error: x";
  failure.hint = "known";
  EXPECT_EQ(describe_with_error(failure), describe(failure));
  failure.hint.clear();
  failure.status = {ExitStatus::How::signaled, 11, false};
  EXPECT_EQ(describe_with_error(failure), describe(failure));
}

TEST(RootCause, IsTheFirstInTime) {
  EXPECT_EQ(root_cause({fell(30), fell(10), fell(20)}), 1U);
  EXPECT_EQ(root_cause({fell(10), fell(10)}), 0U) << "of equals the one that was told first";
}

TEST(RootCause, FailureThatBlamesAPeerRanksLastAmongSimultaneousOnes) {
  EXPECT_EQ(root_cause({fell(10, victim), fell(90), fell(50)}), 2U);
  EXPECT_EQ(root_cause({fell(10, victim), fell(200)}), 0U) << "that is another moment";
  EXPECT_EQ(root_cause({fell(20, victim), fell(10, victim)}), 1U);
}

TEST(RootCause, FailureDuringStopIsTheCauseOnlyIfThereIsNoOther) {
  EXPECT_EQ(root_cause({fell(10, "", true), fell(500)}), 1U);
  EXPECT_EQ(root_cause({fell(10, "", true), fell(5, "", true)}), 1U);
}

TEST(RootCause, LaterFailureMayBeThePeerThatAllBlame) {
  EXPECT_EQ(root_cause({fell(10, victim), fell(60, "", true)}), 1U) << "its end was only noticed later";
  EXPECT_EQ(root_cause({fell(10, victim), fell(500, "", true)}), 0U) << "it obeyed the stop, in its way";
  EXPECT_EQ(root_cause({fell(10), fell(60, "", true)}), 0U);
  auto crashed = fell(3000, "", true);
  crashed.failure.status = {ExitStatus::How::signaled, 11, false};
  EXPECT_EQ(root_cause({fell(10, victim), crashed, fell(20, victim, true)}), 1U);
  EXPECT_EQ(root_cause({fell(10), crashed}), 0U);
}

TEST(RootCause, LostNodeIsTheCauseOfFailuresThatFollow) {
  auto lost = fell(60);
  lost.failure.kind = FailureKind::node_lost;
  EXPECT_EQ(root_cause({fell(10), lost}), 1U);
  EXPECT_EQ(root_cause({fell(10, victim), lost}), 1U);
  lost.when += one_moment;
  EXPECT_EQ(root_cause({fell(10), lost}), 0U);
  EXPECT_EQ(root_cause({fell(10, victim), lost}), 1U);
}

TEST(RootCause, LastLinesCanBlameAPeer) {
  EXPECT_TRUE(output_blames_peer(fell(0, "torch.distributed.DistBackendError: NCCL error in: x").failure));
  EXPECT_TRUE(output_blames_peer(fell(0, "x\nBrokenPipeError: [Errno 32] Broken pipe").failure));
  EXPECT_TRUE(output_blames_peer(
      fell(0,
           "x: rank 2, all_reduce #1 of group default, peer 1 on a: it died, or the connection to it "
           "was lost (the peer closed it)")
          .failure));
  EXPECT_FALSE(output_blames_peer(fell(0, "warning: connection refused, retrying\n1\n2\n3").failure));
  Failure said = fell(0, victim).failure;
  said.exception = "ValueError: x";
  EXPECT_FALSE(output_blames_peer(said)) << "what it said itself goes before what it printed";
}

TEST(RootCause, OwnErrorIsTheLastErrorLineThatBlamesNoPeer) {
  EXPECT_EQ(own_error_in("step 3\nValueError: bad \x1b[31mindex"), "ValueError: bad index");
  EXPECT_EQ(own_error_in("ValueError: x\nloading"), "") << "it went on";
  EXPECT_EQ(own_error_in("UserWarning: an error may follow"), "");
  EXPECT_EQ(own_error_in(victim), "");
  EXPECT_EQ(own_error_in(std::string(victim) + "\nfatal: giving up"), "") << "because of a peer";
  EXPECT_EQ(own_error_in(""), "");
}

Failure suspect(int rank, std::string host = "") {
  Failure failure;
  failure.rank = rank;
  failure.host = std::move(host);
  failure.exception = "E" + std::to_string(rank);
  return failure;
}

TEST(RootCause, SuspectsAreNamedIfAllFailuresBlameAPeer) {
  Failure cause;
  name_suspects({fell(10, victim), fell(20)}, {suspect(3)}, cause);
  EXPECT_EQ(cause.hint, "") << "one of them has an error of its own";
  name_suspects({fell(10, victim), fell(20, victim)}, {}, cause);
  EXPECT_EQ(cause.hint, "");
  name_suspects({fell(10, victim), fell(20, victim)}, {suspect(9), suspect(3, "b"), suspect(12), suspect(4)},
                cause);
  EXPECT_EQ(cause.hint,
            "rank 3 on host b, which was then stopped, had written: E3; rank 4, which was then stopped, had "
            "written: E4; so had 2 more");
}

TimedFailure accuser(int at_ms, int rank, int blamed_rank) {
  TimedFailure one = fell(at_ms);
  one.failure.rank = rank;
  one.failure.blamed_rank = blamed_rank;
  one.failure.blamed_for = "left the group";
  one.failure.blames_peer = blamed_rank >= 0;
  return one;
}

TEST(RootCause, BlamedRankIsTheCauseHoweverLateItEnds) {
  EXPECT_EQ(root_cause({accuser(10, 0, 2), accuser(400, 2, -1)}), 1U);
  EXPECT_EQ(root_cause({accuser(10, 0, 1), accuser(20, 1, 2), accuser(900, 2, -1)}), 2U) << "a chain";
  EXPECT_EQ(root_cause({accuser(10, 0, 1), accuser(20, 1, 0)}), 0U) << "a circle";
  EXPECT_EQ(root_cause({accuser(10, 0, 5), accuser(900, 2, -1)}), 0U) << "another is accused";
}

TEST(RootCause, BlamedRankWithoutFailureIsTheCause) {
  const std::vector<TimedFailure> failures{accuser(10, 0, 2)};
  const auto cause = blamed_peer(failures, 0, {}, "returned 0");
  ASSERT_TRUE(cause);
  EXPECT_EQ(cause->kind, FailureKind::left);
  EXPECT_EQ(describe(*cause), "rank 2 (local rank -1) left the group and returned 0; rank 0 noticed it");
  EXPECT_EQ(exit_code_of(*cause), 1);
  EXPECT_FALSE(blamed_peer({accuser(10, 0, -1)}, 0, {}, ""));
  EXPECT_FALSE(blamed_peer({accuser(10, 0, 2), accuser(20, 2, 0)}, 0, {}, "")) << "it fell";
}

}  // namespace
}  // namespace dlaunch::agent
