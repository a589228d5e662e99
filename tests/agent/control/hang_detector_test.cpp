#include "agent/control/hang_detector.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace dlaunch::agent {
namespace {

using std::chrono::seconds;

class HangDetectorTest : public ::testing::Test {
 protected:
  HangDetectorTest() {
    for (MemberId member : {0U, 1U}) {
      Join join;
      join.slots = 2;
      join.host = "host" + std::to_string(member);
      Membership::Node& node = membership_.add(member, join, "", TimePoint(seconds(1)));
      node.active = true;
    }
    world_.round = 3;
    world_.members = {{0, 2, 0, "host0", 7, 0}, {1, 2, 2, "host1", 8, 1}};
  }
  void told(MemberId member, Duration quiet, bool inside, std::vector<GroupProgress> groups = {}) {
    detector_.take(member, {3, quiet, inside, std::move(groups)});
  }
  Membership membership_;
  World world_;
  HangDetector detector_{seconds(10)};
};

TEST_F(HangDetectorTest, NothingMovesAnywhereAndOneWaits) {
  told(0, seconds(10), true);
  EXPECT_FALSE(detector_.hangs(membership_)) << "the other node has not said that nothing moves there";
  told(1, seconds(9), false);
  EXPECT_FALSE(detector_.hangs(membership_));
  told(1, seconds(10), false);
  EXPECT_TRUE(detector_.hangs(membership_));
}

TEST_F(HangDetectorTest, LongComputationIsNoHang) {
  told(0, seconds(1000), false);
  told(1, seconds(1000), false);
  EXPECT_FALSE(detector_.hangs(membership_));
}

TEST_F(HangDetectorTest, ResumedProgressIsNoHang) {
  told(0, seconds(20), true);
  told(1, Duration(0), true);
  EXPECT_FALSE(detector_.hangs(membership_));
}

TEST_F(HangDetectorTest, NodesThatAreDoneOrSpareAreNotAsked) {
  told(0, seconds(20), true);
  membership_.find(1)->done = true;
  EXPECT_TRUE(detector_.hangs(membership_));
  membership_.find(1)->done = false;
  EXPECT_FALSE(detector_.hangs(membership_));
  membership_.find(1)->active = false;
  EXPECT_TRUE(detector_.hangs(membership_));
}

TEST_F(HangDetectorTest, PollingForTheWholeLimitIsWaiting) {
  told(0, seconds(20), false);
  detector_.take(1, {3, seconds(20), false, {}, seconds(9)});
  EXPECT_FALSE(detector_.hangs(membership_));
  detector_.take(1, {3, seconds(20), false, {}, seconds(10)});
  EXPECT_TRUE(detector_.hangs(membership_));
}

TEST_F(HangDetectorTest, AStallIsThatOfTheNodeThatMovedLast) {
  HangDetector off{Duration(0)};
  off.take(0, {3, seconds(20), true, {}});
  EXPECT_EQ(off.stall(membership_, seconds(5), true), Duration(0)) << "the other node has not reported";
  off.take(1, {3, seconds(12), false, {}, seconds(6)});
  EXPECT_EQ(off.stall(membership_, seconds(5), true), seconds(12));
  off.take(0, {3, seconds(20), false, {}});
  EXPECT_EQ(off.stall(membership_, seconds(5), true), seconds(12)) << "one polls";
  EXPECT_EQ(off.stall(membership_, seconds(7), true), Duration(0)) << "it may be between two steps";
  EXPECT_EQ(off.note(Diagnosis{}, world_, seconds(12)).text,
            "nothing has moved for 12 s: a rank waits for a message or for other ranks");
}

TEST_F(HangDetectorTest, TheWayToTheFirstGroupIsNoHangButAStall) {
  RankProgress waiting;
  waiting.operation = page::Operation::init_process_group;
  GroupProgress forming{GroupProgress::outside, "", 4, {}, {waiting}};
  told(0, seconds(20), false, {forming});
  told(1, seconds(15), false);
  EXPECT_FALSE(detector_.hangs(membership_));
  EXPECT_EQ(detector_.stall(membership_, seconds(5), false), Duration(0));
  EXPECT_EQ(detector_.stall(membership_, seconds(5), true), seconds(15));
  forming.here[0].operation = page::Operation::none;
  told(0, seconds(20), false, {forming});
  EXPECT_EQ(detector_.stall(membership_, seconds(5), true), Duration(0)) << "no rank waits there";
}

TEST_F(HangDetectorTest, ANewRoundForgetsAndWithoutALimitNothingHangs) {
  told(0, seconds(20), true);
  told(1, seconds(20), true);
  EXPECT_TRUE(detector_.hangs(membership_));
  detector_.begin();
  EXPECT_FALSE(detector_.hangs(membership_));
  HangDetector off{Duration(0)};
  off.take(0, {3, seconds(20), true, {}});
  off.take(1, {3, seconds(20), true, {}});
  EXPECT_FALSE(off.hangs(membership_));
}

TEST_F(HangDetectorTest, TheRankThatNeverCameIsTheCause) {
  RankProgress waits;
  waits.entered = 2;
  waits.done = 1;
  waits.inside = true;
  waits.operation = page::Operation::barrier;
  waits.waited = seconds(11);
  RankProgress missing;
  missing.rank = 3;
  missing.entered = missing.done = 1;
  told(0, seconds(10), true, {{1, "default", 2, {{0, 3, 2}}, {waits}}});
  told(1, seconds(10), false, {{1, "default", 2, {{0, 3, 2}}, {missing}}});
  const Failure failure = detector_.failure(detector_.diagnosis(), world_);
  EXPECT_EQ(failure.kind, FailureKind::hang);
  EXPECT_EQ(failure.round, 3U);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_EQ(failure.local_rank, 1);
  EXPECT_EQ(failure.node_rank, 1);
  EXPECT_EQ(failure.host, "host1");
  EXPECT_EQ(describe(failure),
            "nothing has moved for 10 s (--hang-timeout): rank 3 (local rank 1, node 1, host host1) never "
            "entered barrier #2 "
            "of group default; the other one has waited 11 s");
  EXPECT_EQ(exit_code_of(failure), 1);
}

TEST_F(HangDetectorTest, ANoteShowsProcessAndStateOfTheMissingRank) {
  RankProgress missing;
  missing.rank = 3;
  missing.pid = 4711;
  missing.state = "sleeps in the kernel (\x1b[2Jpipe_read)";
  Diagnosis diagnosis;
  diagnosis.sentences = {"rank 3 never entered barrier #2"};
  diagnosis.missing = {3};
  const auto note = [&] {
    told(1, seconds(10), false, {{1, "default", 2, {{0, 3, 2}}, {missing}}});
    return detector_.note(diagnosis, world_, seconds(10)).text;
  };
  const std::string common =
      "nothing has moved for 10 s: rank 3 (local rank 1, node 1, host host1, pid 4711) never entered barrier "
      "#2";
  EXPECT_EQ(note(), common + "; rank 3 sleeps in the kernel (pipe_read)");
  Event event = detector_.note(diagnosis, world_, seconds(10));
  event.text.clear();
  EXPECT_EQ(event, (Event{EventKind::stalled, 3, 1, "host1", 3, 4711}));
  EXPECT_FALSE(detector_.is_stopped(3));
  missing.condition = Condition::stopped;
  EXPECT_EQ(note(), common) << "the sentences of the diagnosis name it";
  EXPECT_TRUE(detector_.is_stopped(3));
  EXPECT_FALSE(detector_.is_stopped(2));
  EXPECT_EQ(detector_.advice_on_stopped(diagnosis, world_),
            "kill -CONT 4711 on host host1, if no debugger holds it");
  diagnosis.missing = {2};
  EXPECT_EQ(detector_.advice_on_stopped(diagnosis, world_), "");
  EXPECT_EQ(detector_.advice_on_stopped({}, world_), "");
}

TEST_F(HangDetectorTest, ANoteNamesTheRankWhoseGpuIsLate) {
  const auto at = [](int rank, page::Record::OnDevice where) {
    RankProgress progress;
    progress.rank = rank;
    progress.entered = 2;
    progress.done = 1;
    progress.inside = true;
    progress.operation = page::Operation::all_reduce;
    progress.on_device = where;
    progress.waited = seconds(11);
    progress.pid = 4700 + rank;
    progress.state = "is running";
    return progress;
  };
  const auto both_told = [&](page::Record::OnDevice of_last) {
    const std::vector<page::Run> all{{0, 1, 4}};
    told(0, seconds(10), true, {{1, "g", 4, all, {at(0, page::Record::begun), at(1, page::Record::begun)}}});
    told(1, seconds(10), true, {{1, "g", 4, all, {at(2, page::Record::begun), at(3, of_last)}}});
  };
  both_told(page::Record::queued);
  const Diagnosis late = detector_.diagnosis();
  const std::string sentence =
      " has called all_reduce #2 of group g, but its GPU has not come to it: it still works on what the "
      "program gave it before; the other 3 wait for it on their GPUs, for up to 11 s";
  const std::string rank = "rank 3 (local rank 1, node 1, host host1, pid 4703)";
  EXPECT_EQ(detector_.note(late, world_, seconds(10)).text,
            "nothing has moved for 10 s: " + rank + sentence + "; rank 3 is running");
  const Failure failure = detector_.failure(late, world_);
  EXPECT_EQ(describe(failure), "nothing has moved for 10 s (--hang-timeout): " + rank + sentence);
  EXPECT_EQ(failure.rank, 3);
  EXPECT_TRUE(detector_.advice_on_devices(late, world_, true).starts_with("cuda-gdb -p 4703 "));
  EXPECT_TRUE(detector_.advice_on_devices(late, world_, false)
                  .ends_with("on host host1 while it hangs, without "
                             "--hang-timeout"));
  both_told(page::Record::begun);
  EXPECT_TRUE(detector_.advice_on_devices(detector_.diagnosis(), world_, true)
                  .ends_with("dlaunch doctor --peer=host0,host1 checks the network"));
  both_told(page::Record::not_known);
  EXPECT_EQ(detector_.advice_on_devices(detector_.diagnosis(), world_, true), "");
}

TEST_F(HangDetectorTest, BothHostsOfAConnectionThatDoesNotMoveAreNamed) {
  Diagnosis diagnosis;
  diagnosis.sentences = {"all 4 ranks have been in barrier #2"};
  diagnosis.link = {0, {2, false, 5, seconds(6)}, false};
  const auto text = [&] { return detector_.note(diagnosis, world_, seconds(6)).text; };
  const std::string common = "nothing has moved for 6 s: all 4 ranks have been in barrier #2; ";
  EXPECT_EQ(
      text(),
      common +
          "no byte from rank 0 (host0) to rank 2 (host1) has been acknowledged for 6 s, 5 retransmissions: a "
          "firewall drops them, or a cable is broken");
  EXPECT_EQ(HangDetector::advice_on_link(diagnosis, world_), "dlaunch doctor --peer=host1 on host host0");
  EXPECT_EQ(detector_.failure(diagnosis, world_).remedy, "dlaunch doctor --peer=host1 on host host0");
  diagnosis.link->both_ways = true;
  EXPECT_EQ(text(), common +
                        "no byte between rank 0 (host0) and rank 2 (host1) has been acknowledged for "
                        "6 s, 5 retransmissions: a firewall drops them, or a cable is broken");
  diagnosis.link = {0, {2, true, 0, seconds(6)}, false};
  EXPECT_EQ(text(),
            common +
                "rank 2 (host1) has taken no bytes of rank 0 (host0) for 6 s, though its host answers: it is "
                "stopped or busy");
  EXPECT_EQ(HangDetector::advice_on_link(diagnosis, world_), "");
  diagnosis.link = {0, {1, false, 5, seconds(6)}, false};
  EXPECT_EQ(HangDetector::advice_on_link(diagnosis, world_), "") << "both are on one host";
}

TEST_F(HangDetectorTest, WithoutACauseNoRankIsBlamed) {
  told(0, seconds(10), true);
  told(1, seconds(10), true);
  const Failure failure = detector_.failure(detector_.diagnosis(), world_);
  EXPECT_EQ(failure.rank, -1);
  EXPECT_EQ(failure.host, "");
  EXPECT_EQ(describe(failure),
            "nothing has moved for 10 s (--hang-timeout): a rank waits for a message or for other ranks");
}

// By the first and the last rank of each node.
TEST_F(HangDetectorTest, TheNodeOfTheCulpritIsFound) {
  const auto place_of = [this](int rank) {
    Diagnosis diagnosis;
    diagnosis.missing = {rank};
    const Failure failure = detector_.failure(diagnosis, world_);
    return std::array{failure.node_rank, failure.local_rank};
  };
  EXPECT_EQ(place_of(0), (std::array{0, 0}));
  EXPECT_EQ(place_of(1), (std::array{0, 1}));
  EXPECT_EQ(place_of(2), (std::array{1, 0}));
  EXPECT_EQ(place_of(3), (std::array{1, 1}));
  EXPECT_EQ(place_of(4), place_of(-1)) << "no rank of this world";
  std::swap(world_.members[0], world_.members[1]);
  EXPECT_EQ(place_of(1), (std::array{0, 1}));
  EXPECT_EQ(place_of(2), (std::array{1, 0}));
}

}  // namespace
}  // namespace dlaunch::agent
