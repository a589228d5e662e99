#include "agent/control/pmi_barrier.h"

#include <gtest/gtest.h>

namespace dlaunch::agent {
namespace {

// Nodes 1 and 2 are in the world of round 4, and node 3 is a spare.
class PmiBarrierTest : public ::testing::Test {
 protected:
  PmiBarrierTest() {
    for (const MemberId member : {1U, 2U, 3U}) here_.add(member, {}, "", TimePoint{}).active = member != 3;
  }
  std::vector<PmiRelease> take(MemberId member, std::uint32_t barrier, std::vector<PmiEntry> entries = {},
                               bool last = true) {
    return barrier_.take(member, {round, barrier, std::move(entries), last, -1}, here_);
  }
  void returns(MemberId member, int rank) { barrier_.take(member, {round, 0, {}, true, rank}, here_); }

  static constexpr std::uint32_t round = 4;
  Membership here_;
  PmiBarrier barrier_{round};
};

TEST_F(PmiBarrierTest, IsOverWhenAllNodesOfTheWorldHaveCome) {
  EXPECT_TRUE(take(1, 0, {{"a", "1"}}).empty());
  EXPECT_TRUE(take(1, 0, {{"x", "1"}}).empty()) << "it is here already";
  EXPECT_TRUE(take(2, 0, {{"b", "2"}}, false).empty()) << "more of its values follow";
  EXPECT_EQ(take(2, 0, {{"c", "3"}}),
            (std::vector<PmiRelease>{{round, 0, {{"a", "1"}, {"b", "2"}, {"c", "3"}}, true}}));
  EXPECT_TRUE(take(2, 0).empty()) << "that one is over";
  EXPECT_TRUE(take(2, 1).empty());
  EXPECT_EQ(take(1, 1), (std::vector<PmiRelease>{{round, 1, {}, true}}));
}

TEST_F(PmiBarrierTest, OtherRoundsDoNotCount) {
  EXPECT_TRUE(take(1, 0).empty());
  EXPECT_TRUE(barrier_.take(2, {round - 1, 0, {}, true, -1}, here_).empty());
  barrier_.begin(round + 1);
  EXPECT_TRUE(barrier_.take(2, {round + 1, 0, {}, true, -1}, here_).empty())
      << "nobody is in the new one yet";
}

TEST_F(PmiBarrierTest, ManyValuesTakeSeveralMessages) {
  const std::vector<PmiEntry> many(1000, {"key", std::string(1000, 'v')});
  take(1, 0, many);
  const std::vector<PmiRelease> releases = take(2, 0);
  ASSERT_EQ(releases.size(), 5U);
  std::size_t entries = 0;
  for (const PmiRelease& release : releases) {
    EXPECT_EQ(release.last, &release == &releases.back());
    EXPECT_LT(encode(release).size(), max_frame_from_member);
    entries += release.entries.size();
  }
  EXPECT_EQ(entries, many.size());
}

TEST_F(PmiBarrierTest, ANodeWithARankThatReturned0MissesIt) {
  returns(2, 3);
  returns(2, 2);
  EXPECT_EQ(barrier_.missed_by(), std::nullopt) << "nobody waits";
  take(1, 0);
  EXPECT_EQ(barrier_.missed_by(), 3);
}

TEST_F(PmiBarrierTest, ARankThatItsOwnNodeWaitsForMissesIt) {
  barrier_.take(1, {round, 0, {}, true, 1, true}, here_);
  EXPECT_EQ(barrier_.missed_by(), 1);
  take(2, 0);
  EXPECT_EQ(barrier_.missed_by(), 1);
  barrier_.begin(round + 1);
  EXPECT_EQ(barrier_.missed_by(), std::nullopt);
}

TEST_F(PmiBarrierTest, ARankMayReturn0AfterTheLastBarrier) {
  take(1, 0);
  take(2, 0);
  returns(2, 3);
  EXPECT_EQ(barrier_.missed_by(), std::nullopt);
}

TEST_F(PmiBarrierTest, MemoryIsBounded) {
  take(1, 0, {{"k", std::string(most_pmi_bytes, 'v')}});
  EXPECT_TRUE(barrier_.is_full());
  EXPECT_TRUE(take(2, 0).empty());
  barrier_.begin(round + 1);
  EXPECT_FALSE(barrier_.is_full());
}

}  // namespace
}  // namespace dlaunch::agent
