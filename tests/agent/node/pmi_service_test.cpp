#include "agent/node/pmi_service.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace dlaunch::agent {
namespace {

// Node 1 of two, with the ranks 1 and 2. What the service sends, closes, posts and reports, as texts.
class PmiServiceTest : public ::testing::Test, public PmiWire, public Reporter, public Clock, public Timers {
 protected:
  explicit PmiServiceTest(MpiStart start = MpiStart::pmi) : start_(start) { begin(4); }
  void begin(std::uint32_t round) {
    World world;
    world.leader = 9;
    world.round = round;
    world.world_size = 3;
    world.members = {{1, 2, 1, "b", 42, 1}};
    world.blocks = {{1, 1}, {1, 2}};
    service_.begin(world, world.members.front());
  }
  void say(const std::string& line, std::uint32_t round = 4, std::uint32_t local_rank = 0) {
    service_.on_pmi_bytes({round, local_rank}, line + "\n");
  }
  void init() {
    for (const std::uint32_t rank : {0U, 1U}) say("cmd=init pmi_version=1 pmi_subversion=1", 4, rank);
  }
  void enter() {
    for (const std::uint32_t rank : {0U, 1U}) say("cmd=barrier_in", 4, rank);
  }

  void set_handler(PmiWireHandler&) override {}
  void send(ProcKey, std::string_view bytes) override { sent_ = bytes; }
  void close(ProcKey) override { sent_ = "closed"; }
  void take_now(ProcKey key) override { service_.on_pmi_bytes(key, std::exchange(unread_, "")); }
  std::string start_pmix(ProcKey key) override {
    EXPECT_EQ(key, helper_);
    return no_pmix_;
  }
  void report(const LogMessage& message) override { reported_ = message.text; }
  TimePoint now() const override { return TimePoint(std::chrono::seconds(100)); }
  TimerId arm(TimePoint at, TimerHandler&) override {
    EXPECT_EQ(at, now() + std::chrono::minutes(1));
    return timer_ = {++armed_, 1};
  }
  void disarm(TimerId timer) override {
    if (timer == timer_) timer_ = {};
  }

  const MpiStart start_;
  std::vector<PmiEnter> entered_;
  std::vector<WorkerAborted> aborted_;
  std::string sent_;
  std::string unread_;   // of the process that serves PMIx
  std::string no_pmix_;  // why it cannot be started
  const ProcKey helper_{4, 2};
  std::string reported_;
  TimerId timer_;
  std::uint32_t armed_ = 0;
  PmiService service_{{*this, *this, *this, *this, start_, "/scratch", std::chrono::minutes(1),
                       [this](PmiEnter enter) { entered_.push_back(std::move(enter)); },
                       [this](WorkerAborted aborted) { aborted_.push_back(aborted); }}};
};

TEST_F(PmiServiceTest, AWorkerKnowsItsRank) {
  Environment environment;
  service_.add_variables(environment, 0);
  EXPECT_EQ(environment, (Environment{{"PMI_RANK", "1"}, {"PMI_SIZE", "3"}}));
  init();
  say("cmd=get kvsname=dlaunch_9_4 key=PMI_process_mapping");
  EXPECT_EQ(sent_, "cmd=get_result rc=0 msg=success value=(vector,(0,1,1),(1,1,2))\n");
}

TEST_F(PmiServiceTest, ABarrierGoesToTheCoordinatorAndBack) {
  init();
  say("cmd=put kvsname=dlaunch_9_4 key=a value=1");
  enter();
  EXPECT_EQ(entered_, (std::vector<PmiEnter>{{4, 0, {{"a", "1"}}, true, -1}}));
  service_.on_release({3, 0, {}, true});
  EXPECT_EQ(sent_, "cmd=put_result rc=0 msg=success\n") << "of another round";
  service_.on_release({4, 0, {{"b", "2"}}, true});
  EXPECT_EQ(sent_, "cmd=barrier_out rc=0\n");
  say("cmd=get kvsname=dlaunch_9_4 key=b");
  EXPECT_EQ(sent_, "cmd=get_result rc=0 msg=success value=2\n");
}

TEST_F(PmiServiceTest, ManyValuesTakeSeveralMessages) {
  init();
  for (int i = 0; i < 300; ++i)
    say("cmd=put kvsname=dlaunch_9_4 key=" + std::to_string(i) + " value=" + std::string(1024, 'v'));
  enter();
  ASSERT_EQ(entered_.size(), 2U);
  EXPECT_FALSE(entered_[0].last);
  EXPECT_TRUE(entered_[1].last);
}

TEST_F(PmiServiceTest, TheFirstRankThatReturns0IsReported) {
  service_.on_returned_0(0);
  service_.on_returned_0(0);
  EXPECT_EQ(entered_, (std::vector<PmiEnter>{{4, 0, {}, true, 1, false}}));
}

TEST_F(PmiServiceTest, ARankThatOthersWaitForIsReportedOnce) {
  init();
  service_.on_returned_0(1);
  EXPECT_FALSE(entered_.back().waits);
  say("cmd=barrier_in");
  say("cmd=x");
  EXPECT_EQ(entered_.size(), 2U);
  EXPECT_EQ(entered_.back(), (PmiEnter{4, 0, {}, true, 2, true}));
}

TEST_F(PmiServiceTest, ARankThatReturnsWhileOthersWaitIsReportedAtOnce) {
  init();
  say("cmd=barrier_in");
  service_.on_returned_0(1);
  EXPECT_EQ(entered_, (std::vector<PmiEnter>{{4, 0, {}, true, 2, true}}));
}

TEST_F(PmiServiceTest, EachRoundBeginsAnew) {
  init();
  begin(5);
  sent_.clear();
  say("cmd=get_appnum");
  EXPECT_EQ(sent_, "") << "of a worker of the last round";
  say("cmd=get_appnum", 5);
  EXPECT_EQ(sent_, "closed");
  EXPECT_EQ(reported_, "ended the PMI connection of rank 1: its first request is not cmd=init");
}

TEST_F(PmiServiceTest, ALongWaitNamesTheLateRanks) {
  init();
  EXPECT_FALSE(timer_);
  say("cmd=barrier_in");
  ASSERT_TRUE(timer_);
  service_.on_timer(timer_);
  EXPECT_EQ(reported_,
            "ranks of this node have waited in MPI_Init or MPI_Finalize for 1 min 0 s, for rank 2");
  say("cmd=barrier_in", 4, 1);
  EXPECT_EQ(armed_, 1U) << "once for each barrier";
}

TEST_F(PmiServiceTest, EachBarrierHasItsOwnTime) {
  init();
  enter();
  service_.on_release({4, 0, {}, true});
  EXPECT_FALSE(timer_) << "it is over";
  enter();
  EXPECT_EQ(armed_, 2U);
  service_.on_timer(timer_);
  EXPECT_EQ(
      reported_,
      "ranks of this node have waited in MPI_Init or MPI_Finalize for 1 min 0 s, for ranks of other nodes");
}

TEST_F(PmiServiceTest, AnAbortReachesTheWorkerGroup) {
  say("cmd=abort exitcode=7");
  ASSERT_EQ(aborted_.size(), 1U);
  EXPECT_EQ(aborted_[0].code, 7);
}

// The same node, whose ranks speak PMIx.
class PmixServiceTest : public PmiServiceTest {
 protected:
  PmixServiceTest() : PmiServiceTest(MpiStart::pmix) {}
  void serve(const std::string& line) { say(line, 4, helper_.local_rank); }
};

TEST_F(PmixServiceTest, AWorkerNeedsNoVariablesOfPmi) {
  Environment environment;
  service_.add_variables(environment, 0);
  EXPECT_TRUE(environment.empty());
  serve("cmd=world");
  EXPECT_EQ(sent_,
            "cmd=world name=dlaunch_9_4 rank=1 slots=2 size=3 mapping=(vector,(0,1,1),(1,1,2)) "
            "folder=L3NjcmF0Y2g=\n");
}

TEST_F(PmixServiceTest, AFenceGoesToTheCoordinatorAndBack) {
  serve("cmd=data value=YQ==");
  serve("cmd=fence");
  EXPECT_EQ(entered_, (std::vector<PmiEnter>{{4, 0, {{"1", "YQ=="}}, true, -1}}));
  service_.on_release({4, 0, {{"0", "Yg=="}}, true});
  EXPECT_EQ(sent_, "cmd=released\n");
}

// What it had sent may still be unread when its process has ended.
TEST_F(PmixServiceTest, ARankThatHasFinalizedIsNotWaitedFor) {
  serve("cmd=connected rank=0");
  serve("cmd=connected rank=1");
  unread_ = "cmd=finalized rank=0\n";
  service_.on_returned_0(0);
  EXPECT_EQ(entered_, (std::vector<PmiEnter>{{4, 0, {}, true, 1, false}}));
}

TEST_F(PmixServiceTest, ARankThatHasNotFinalizedIsWaitedFor) {
  serve("cmd=connected rank=0");
  serve("cmd=connected rank=1");
  service_.on_returned_0(0);
  EXPECT_EQ(entered_.back(), (PmiEnter{4, 0, {}, true, 1, true}));
}

TEST_F(PmixServiceTest, TheEndOfTheServerIsReported) {
  service_.on_pmi_closed({4, 0});
  EXPECT_EQ(reported_, "") << "a worker's";
  service_.on_pmi_closed(helper_);
  EXPECT_EQ(sent_, "closed") << "the workers that wait for it";
  EXPECT_EQ(reported_, "ended the PMI connection of rank 2: the process that serves PMIx has ended");
  sent_.clear();
  service_.on_pmi_closed({3, 2});
  EXPECT_EQ(sent_, "") << "of another round";
}

TEST_F(PmixServiceTest, AServerThatCannotBeStartedEndsItsWorkers) {
  no_pmix_ = "no such file";
  sent_.clear();
  begin(4);
  EXPECT_EQ(sent_, "closed");
}

}  // namespace
}  // namespace dlaunch::agent
