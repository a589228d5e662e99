#include "agent/model/arrival_merge.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A group of four ranks, two on each of two nodes.
class ArrivalMergeTest : public ::testing::Test {
 protected:
  // Of the node with these two ranks: their times inside, the last one's first.
  static SampledGroup of(int last, int inside_ms, int next_ms, std::int64_t came_ms = 0) {
    ArrivalSample sample{1, last, 100 + last};
    sample.shortest = milliseconds(inside_ms);
    sample.next = sample.longest = milliseconds(next_ms);
    sample.sum = milliseconds(inside_ms + next_ms);
    sample.came_ns = came_ms * ms;
    return {9, "default", 4, 2, 1, {sample}};
  }
  std::vector<DecidedCollective> add(const SampledGroup& group, std::int64_t error_ms = -1) {
    return merge_.add(now_, group, error_ms < 0 ? -1 : error_ms * ms);
  }

  TimePoint now_{seconds(1000)};
  ArrivalMerge merge_{seconds(60)};
};

TEST_F(ArrivalMergeTest, TheShortestTimeInsideOfAllNodesCameLast) {
  for (const bool first_is_late : {true, false}) {
    const SampledGroup late = of(1, 1, 50);
    const SampledGroup other = of(2, 31, 60);
    EXPECT_TRUE(add(first_is_late ? late : other).empty());
    const auto found = add(first_is_late ? other : late);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].last, 1);
    EXPECT_EQ(found[0].pid, 101);
    EXPECT_EQ(found[0].collectives, 1U);
    EXPECT_EQ(found[0].late, milliseconds(30)) << "the next one came on the other node";
    EXPECT_EQ(found[0].waited, milliseconds(49 + 30 + 59));
    EXPECT_EQ(found[0].spread, milliseconds(59));
  }
  EXPECT_EQ(merge_.open(), 0U);
}

TEST_F(ArrivalMergeTest, TheNextOneMayBeOfTheSameNode) {
  for (const bool first_is_late : {true, false}) {
    add(first_is_late ? of(1, 1, 20) : of(2, 31, 60));
    EXPECT_EQ(add(first_is_late ? of(2, 31, 60) : of(1, 1, 20)).at(0).late, milliseconds(19));
  }
}

TEST_F(ArrivalMergeTest, NoMoreThanSinceItCameBeforeIsOneCollectivesDelay) {
  SampledGroup late = of(1, 1, 50);
  late.samples[0].since = milliseconds(2);
  add(late);
  EXPECT_EQ(add(of(2, 31, 60)).at(0).late, milliseconds(2));
  add(of(2, 31, 60));
  late.samples[0].since = milliseconds(500);
  EXPECT_EQ(add(late).at(0).late, milliseconds(30));
}

TEST_F(ArrivalMergeTest, ANodeWithOneRankHasNoNextOne) {
  SampledGroup one = of(1, 1, 1);
  SampledGroup other = of(2, 31, 31);
  for (SampledGroup* group : {&one, &other}) {
    group->here = 1;
    group->size = 2;
    group->samples[0].next = Duration(-1);
    group->samples[0].sum = group->samples[0].shortest;
  }
  EXPECT_TRUE(add(other).empty());
  const auto found = add(one);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last, 1);
  EXPECT_EQ(found[0].late, milliseconds(30));
  EXPECT_EQ(found[0].waited, milliseconds(30));
}

TEST_F(ArrivalMergeTest, ACollectiveStandsForAsManyAsTheRarestSample) {
  SampledGroup often = of(1, 1, 50);
  often.stride = 2;
  SampledGroup rare = of(2, 31, 60);
  rare.stride = 8;
  add(often);
  const auto found = add(rare);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].collectives, 8U);
  EXPECT_EQ(found[0].late, 8 * milliseconds(30));
  EXPECT_EQ(found[0].spread, 8 * milliseconds(59));
}

TEST_F(ArrivalMergeTest, ARankIsNotHeldLaterThanTheClocksAllow) {
  // By the clocks rank 1 came 5 ms after the last one of the other node, with an error of 2 ms on each.
  add(of(1, 1, 50, 1005), 2);
  EXPECT_EQ(add(of(2, 31, 60, 1000), 2).at(0).late, milliseconds(9));
  add(of(2, 31, 60, 1000), 2);
  EXPECT_EQ(add(of(1, 1, 50, 1005), 2).at(0).late, milliseconds(9));
  // By the clocks another one came last.
  add(of(1, 1, 50, 1000), 2);
  const auto found = add(of(2, 31, 60, 1005), 2);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last, -1);
  EXPECT_EQ(found[0].late + found[0].waited, Duration(0));
  EXPECT_EQ(found[0].spread, milliseconds(59));
  // One of the nodes has no clock.
  add(of(1, 1, 50, 1000), 2);
  EXPECT_EQ(add(of(2, 31, 60, 1005)).at(0).late, milliseconds(30));
}

TEST_F(ArrivalMergeTest, WhatANodeDoesNotReportIsForgottenAfterAWhile) {
  add(of(1, 1, 50));
  EXPECT_EQ(merge_.open(), 1U);
  now_ += seconds(60);
  EXPECT_TRUE(add(of(2, 31, 60)).empty()) << "the first half is forgotten";
  EXPECT_EQ(merge_.open(), 1U);
}

TEST_F(ArrivalMergeTest, ItsMemoryIsBounded) {
  SampledGroup group = of(1, 1, 50);
  for (std::uint64_t i = 0; i < ArrivalMerge::most_open + 1000; ++i) {
    group.samples[0].sequence = i;
    add(group);
  }
  EXPECT_LE(merge_.open(), ArrivalMerge::most_open);
  SampledGroup other = of(2, 31, 60);
  other.samples[0].sequence = ArrivalMerge::most_open + 999;
  EXPECT_EQ(add(other).size(), 1U) << "the latest are kept";
}

TEST_F(ArrivalMergeTest, ANodeThatReportsACollectiveTwiceDecidesNothing) {
  SampledGroup three = of(1, 1, 50);
  three.here = 3;
  EXPECT_TRUE(add(three).empty());
  EXPECT_TRUE(add(three).empty());
  EXPECT_EQ(merge_.open(), 0U);
}

TEST_F(ArrivalMergeTest, ImpossibleReportsAreLeftOut) {
  const auto changed = [](auto change) {
    SampledGroup group = of(1, 1, 50);
    change(group);
    return group;
  };
  EXPECT_TRUE(add(changed([](auto& g) { g.here = 0; })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.here = g.size; })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.stride = 0; })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.samples[0].shortest = Duration(-1); })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.samples[0].longest = Duration::max(); })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.samples[0].next = Duration::max(); })).empty());
  EXPECT_TRUE(add(changed([](auto& g) { g.samples[0].sum = Duration::min(); })).empty());
  EXPECT_EQ(merge_.open(), 0U);
  // Times that no clock shows are none.
  constexpr auto greatest = std::numeric_limits<std::int64_t>::max();
  add(changed([](auto& g) { g.samples[0].came_ns = greatest; }), 1);
  SampledGroup many = of(2, 31, 60, 1000);
  many.stride = std::numeric_limits<std::uint32_t>::max();
  const auto found = merge_.add(now_, many, greatest);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].last, 1);
  EXPECT_GT(found[0].waited, Duration(0));
}

}  // namespace
}  // namespace dlaunch::agent
