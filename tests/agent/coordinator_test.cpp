#include "agent/coordinator.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() {
    job_.id = "j";
    job_.nnodes = 2;
    job_.max_restarts = 1;
    job_.join_timeout = seconds(60);
    job_.stop_timeout = seconds(30);
    job_.master = {"m", 29500};
  }

  void begin() {
    coordinator_.emplace(job_, now_);
    coordinator_->begin();
  }
  void from(MemberId member, Message message) {
    last_ = coordinator_->step(now_, FromMember{member, std::move(message)});
  }
  Join join(int node_rank, int slots = 2) {
    return {"j", 2, 1, node_rank, slots, "host" + std::to_string(node_rank), "0.1"};
  }
  void gather() {
    begin();
    from(0, join(0));
    from(7, join(1));
  }
  Failed failed(std::uint32_t round, int rank) {
    Failure failure;
    failure.kind = FailureKind::worker;
    failure.round = round;
    failure.rank = rank;
    failure.status = {ExitStatus::How::exited, 3, false};
    return {failure};
  }
  template <class M>
  std::vector<std::pair<MemberId, M>> sent() const {
    std::vector<std::pair<MemberId, M>> found;
    for (const auto& action : last_) {
      if (const auto* to = std::get_if<ToMember>(&action)) {
        if (const auto* message = std::get_if<M>(&to->message)) found.emplace_back(to->member, *message);
      }
    }
    return found;
  }
  template <class A>
  bool did() const {
    for (const auto& action : last_) {
      if (std::holds_alternative<A>(action)) return true;
    }
    return false;
  }

  TimePoint now_{seconds(100)};
  JobSpec job_;
  std::optional<Coordinator> coordinator_;
  CoordinatorActions last_;
};

TEST_F(CoordinatorTest, TheWorldComesWhenAllAreInAndRanksFollowNodeRanks) {
  begin();
  from(7, join(1, 3));
  EXPECT_TRUE(sent<NewWorld>().empty());
  from(0, join(0, 2));
  const auto worlds = sent<NewWorld>();
  ASSERT_EQ(worlds.size(), 2U);
  EXPECT_EQ(worlds[0].second.world, worlds[1].second.world);
  const World& world = worlds[0].second.world;
  EXPECT_EQ(world.world_size, 5);
  EXPECT_EQ(world.members, (std::vector<WorldMember>{{0, 2, 0, "host0"}, {1, 3, 2, "host1"}}));
  // The store must be there before a worker can look for it.
  EXPECT_TRUE(std::holds_alternative<OpenStore>(last_[last_.size() - 3]));
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
  last_ = coordinator_->step(now_, MemberLost{7, "closed"});
  EXPECT_TRUE(did<CoordinatorEnded>());
}

TEST_F(CoordinatorTest, TheCauseIsTheFirstFailureInTimeNotTheFirstHeardOf) {
  job_.max_restarts = 0;
  begin();
  auto one = join(0);
  auto two = join(1);
  one.max_restarts = two.max_restarts = 0;
  from(0, one);
  from(7, two);
  from(7, failed(0, 3));  // at 100 s
  now_ += milliseconds(200);
  Failure early = failed(0, 0).failure;
  early.age_ms = 900;  // at 99.3 s
  early.status.number = 9;
  Failure late = failed(0, 1).failure;
  late.age_ms = 50;
  from(0, Stopped{0, {early, late}, 4});
  Failure again = failed(0, 3).failure;  // told a second time, by now older
  again.age_ms = 200;
  from(7, Stopped{0, {again}, 0});
  ASSERT_EQ(sent<End>().size(), 2U);
  const Outcome outcome = sent<End>()[0].second.outcome;
  EXPECT_EQ(outcome.cause.rank, 0);
  EXPECT_EQ(outcome.exit_code, 9);
  ASSERT_EQ(outcome.others.size(), 2U);
  EXPECT_EQ(outcome.others[0].rank, 3);
  EXPECT_EQ(outcome.others[1].rank, 1);
  EXPECT_EQ(outcome.more, 4);
}

TEST_F(CoordinatorTest, ManyVictimsAreCountedNotListed) {
  job_.max_restarts = 0;
  job_.nnodes = 1;
  begin();
  auto one = join(0, 100);
  one.nnodes = 1;
  one.max_restarts = 0;
  from(0, one);
  std::vector<Failure> failures;
  for (int rank = 0; rank < 6; ++rank) failures.push_back(failed(0, rank).failure);
  from(0, Failed{failures[0]});
  from(0, Stopped{0, failures, 94});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].second.outcome.others.size(), most_others);
  EXPECT_EQ(sent<End>()[0].second.outcome.more, 94);
}

TEST_F(CoordinatorTest, ANodeThatDoesNotStopInTimeIsNamed) {
  gather();
  from(7, failed(0, 3));
  from(7, Stopped{0});
  now_ += job_.stop_timeout + Coordinator::end_margin;
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

TEST_F(CoordinatorTest, ALostNodeEndsTheJobAndIsNamed) {
  gather();
  last_ = coordinator_->step(now_, MemberLost{7, "connection reset by peer"});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(describe(sent<End>()[0].second.outcome.cause),
            "node 1 (host host1) was lost: connection reset by peer");
}

TEST_F(CoordinatorTest, WhoDoesNotFitIsToldWhy) {
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
  wrong.nnodes = 3;
  EXPECT_EQ(refusal(wrong), "this job has --nnodes=2, not 3");
  EXPECT_EQ(refusal(join(2)), "--node-rank=2 is outside --nnodes=2");
  from(0, join(0));
  EXPECT_EQ(refusal(join(0)), "--node-rank=0 is taken by host host0");
  from(9, Done{0});
  EXPECT_EQ(sent<Refused>().size(), 1U);
}

TEST_F(CoordinatorTest, WhoDoesNotComeIsNamedAtTheDeadline) {
  begin();
  from(0, join(0));
  now_ += seconds(10);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_TRUE(did<Say>());
  EXPECT_EQ(std::get<Say>(last_[0]).text,
            "waiting for node 1 of 2 at m:29500 since 10 s, until 50 s from now");
  now_ += seconds(50);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  ASSERT_EQ(sent<End>().size(), 1U);
  EXPECT_EQ(sent<End>()[0].second.outcome.exit_code, 1);
  EXPECT_EQ(sent<End>()[0].second.outcome.cause.why, "waited 1 min 0 s for node 1 of 2, at m:29500, in vain");
}

TEST_F(CoordinatorTest, TheEndIsNotWaitedForForEver) {
  gather();
  from(7, Leave{failed(0, 3).failure});
  now_ += seconds(60);
  last_ = coordinator_->step(now_, CoordinatorTimer{});
  EXPECT_TRUE(did<CoordinatorEnded>());
}

}  // namespace
}  // namespace dlaunch::agent
