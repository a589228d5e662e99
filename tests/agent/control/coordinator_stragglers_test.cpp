// Ranks that keep the others waiting: what the nodes report, what the leader notes and answers.
#include <gtest/gtest.h>

#include "tests/agent/control/coordinator_fixture.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

// Two nodes of two ranks each. All ranks are in a group; rank 3, on node 1, comes last.
class CoordinatorStragglersTest : public CoordinatorTest {
 protected:
  CoordinatorStragglersTest() { gather(); }

  void report(MemberId member, Duration inside, std::uint32_t round = 0) {
    const int rank = member == 0 ? 1 : 3;
    SampledGroup group{12, "default", 4, 2, 1, {}};
    for (std::uint64_t i = 1; i <= 10; ++i) {
      ArrivalSample sample{sequence_ + i, rank, 4711};
      sample.shortest = inside;
      sample.next = sample.longest = seconds(2);
      sample.sum = inside + seconds(2);
      group.samples.push_back(sample);
    }
    from(member, ArrivalsReport{round, {{}, {group}}});
  }
  // Ten collectives: rank 3 comes `late` after all others.
  void meet(Duration late) {
    report(0, late);
    now_ += seconds(1);
    report(7, Duration(0));
    sequence_ += 10;
  }

  std::uint64_t sequence_ = 0;
};

TEST_F(CoordinatorStragglersTest, TheLeaderNotesIt) {
  now_ += seconds(60);
  meet(seconds(2));
  EXPECT_EQ(words(),
            Lines{"rank 3 is slow: in the last 1 min 0 s it came last to 10 of 10 collectives of group "
                  "default, and the others waited 20 s for it alone (33 %); dlaunch dump j there shows what "
                  "rank 3 (pid 4711 on host host1) does"});
  meet(seconds(2));
  EXPECT_EQ(words(), Lines{}) << "once";
}

TEST_F(CoordinatorStragglersTest, EachNodeIsAnsweredWithItsOwnRanksAndTheStraggler) {
  now_ += seconds(60);
  report(7, seconds(1));
  report(0, Duration(0));
  sequence_ += 10;
  ASSERT_EQ(coordinator_->stragglers().ranks().at(1).came_last, 10U);
  meet(seconds(2));
  auto answers = sent<LatenessReport>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].first, 7U);
  EXPECT_EQ(answers[0].second.round, 0U);
  EXPECT_EQ(answers[0].second.lateness.ranks,
            (std::vector<LateRank>{{3, 4711, 10, seconds(20), seconds(60)}}));
  const std::string sentence = answers[0].second.lateness.straggler;
  EXPECT_TRUE(sentence.starts_with("rank 3 is slow"));
  from(0, ArrivalsReport{});
  answers = sent<LatenessReport>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].first, 0U);
  EXPECT_EQ(answers[0].second.lateness.straggler, sentence);
  ASSERT_EQ(answers[0].second.lateness.ranks.size(), 1U);
  EXPECT_EQ(answers[0].second.lateness.ranks[0].rank, 1);
  EXPECT_EQ(coordinator_->view(now_).collectives, Lines{sentence});
  now_ += seconds(61);
  from(0, ArrivalsReport{});
  EXPECT_EQ(sent<LatenessReport>().at(0).second.lateness.straggler, "");
  EXPECT_EQ(coordinator_->view(now_).collectives, Lines{});
}

TEST_F(CoordinatorStragglersTest, ANewRoundBeginsWithoutThem) {
  now_ += seconds(60);
  meet(seconds(2));
  EXPECT_FALSE(coordinator_->stragglers().ranks().empty());
  from(7, failed(0, 3));
  report(7, Duration(0));
  EXPECT_TRUE(sent<LatenessReport>().empty()) << "the round is being stopped";
  from(0, Stopped{0});
  from(7, Stopped{0});
  ASSERT_EQ(coordinator_->round(), 1U);
  EXPECT_TRUE(coordinator_->stragglers().ranks().empty());
  meet(seconds(2));
  EXPECT_TRUE(sent<LatenessReport>().empty()) << "of the last round";
  EXPECT_TRUE(coordinator_->stragglers().ranks().empty());
}

TEST_F(CoordinatorStragglersTest, ASpareReportsNone) {
  job_.spares = 1;
  gather();
  Join spare = join(2);
  spare.node_rank = -1;
  from(9, spare);
  ASSERT_EQ(coordinator_->state(), Coordinator::State::running);
  ASSERT_EQ(coordinator_->view(now_).nodes.back().state, "spare");
  report(9, Duration(0));
  EXPECT_TRUE(sent<LatenessReport>().empty());
}

}  // namespace
}  // namespace dlaunch::agent
