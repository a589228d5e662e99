#include "agent/model/node_arrivals.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/agent/model/made_record.h"
#include "tests/agent/model/nanoseconds.h"

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;

constexpr auto all_reduce = page::Operation::all_reduce;

// Two ranks of a group, of `size`.
class NodeArrivalsTest : public ::testing::Test {
 protected:
  void make(std::uint32_t size, int first = 0) {
    pages_.clear();
    for (int rank = first; rank < first + 2; ++rank)
      pages_.emplace_back(rank, static_cast<int>(size)).add_group(1, "default");
  }
  Arrivals look(NodeArrivals& node, const SharedClock& clock = {}) {
    std::vector<WorkerRecord> records;
    for (MadePage& page : pages_) records.push_back(record_of(page));
    return node.look(records, clock);
  }
  Arrivals look() { return look(node_); }
  // Both ranks come, the second one later, and the collective ends.
  void meet(std::uint64_t sequence) {
    const auto at = static_cast<std::int64_t>(sequence) * 100 * ms;
    page::Record& first = pages_[0].enter(1, all_reduce, sequence, at);
    page::Record& second = pages_[1].enter(1, all_reduce, sequence, at + 30 * ms);
    pages_[0].end(first, at + 32 * ms);
    pages_[1].end(second, at + 31 * ms);
  }

  std::vector<MadePage> pages_;
  NodeArrivals node_;
};

TEST_F(NodeArrivalsTest, AGroupOfThisNodeIsComparedHere) {
  make(2);
  meet(1);
  meet(2);
  const Arrivals found = look();
  EXPECT_TRUE(found.sampled.empty());
  ASSERT_EQ(found.compared.size(), 1U);
  EXPECT_EQ(
      found.compared[0],
      (ComparedGroup{"default", 2, milliseconds(60), {{1, 4711, 2, milliseconds(60), milliseconds(60)}}}));
  EXPECT_TRUE(look().is_empty()) << "what was reported is not reported again";
}

TEST_F(NodeArrivalsTest, OfAnotherGroupTheTimesInsideAreReported) {
  make(4);
  meet(1);
  const Arrivals found = look(node_, {7, 1000 * ms, 5 * ms});
  EXPECT_TRUE(found.compared.empty());
  EXPECT_EQ(found.clock_error_ns, 5 * ms);
  ASSERT_EQ(found.sampled.size(), 1U);
  const ArrivalSample sample{
      1, 1, 4711, milliseconds(1), milliseconds(31), milliseconds(31), milliseconds(32), 1130 * ms};
  EXPECT_EQ(found.sampled[0], (SampledGroup{1001, "default", 4, 2, 1, {sample}}));
  EXPECT_TRUE(look().is_empty());
}

// As the buckets of a gradient: the others have come to all of them long before.
TEST_F(NodeArrivalsTest, OneDelayOfCollectivesThatRunAtTheSameTimeCountsOnce) {
  constexpr std::int64_t buckets = 8;
  for (const std::uint32_t size : {2U, 4U}) {
    pages_.clear();
    node_ = {};
    make(size);
    for (std::int64_t i = 0; i < buckets; ++i) {
      const auto sequence = static_cast<std::uint64_t>(i + 1);
      pages_[0].end(pages_[0].enter(1, all_reduce, sequence, (100 + i) * ms), 200 * ms);
      pages_[1].end(pages_[1].enter(1, all_reduce, sequence, (140 + i) * ms), 200 * ms);
    }
    const Arrivals found = look();
    if (size == 2) {
      ASSERT_EQ(found.compared.size(), 1U);
      EXPECT_EQ(found.compared[0].late.at(0).late, milliseconds(40 + buckets - 1));
    } else {
      ASSERT_EQ(found.sampled.size(), 1U);
      EXPECT_LT(found.sampled[0].samples.at(0).since, Duration(0));
      EXPECT_EQ(found.sampled[0].samples.at(1).since, milliseconds(1));
    }
  }
}

TEST_F(NodeArrivalsTest, ARankAloneOnItsNodeHasNoneBeforeIt) {
  make(2);
  meet(1);
  pages_.pop_back();
  const Arrivals found = look();
  ASSERT_EQ(found.sampled.size(), 1U);
  EXPECT_EQ(found.sampled[0].here, 1U);
  EXPECT_LT(found.sampled[0].samples[0].next, Duration(0));
  EXPECT_LT(found.clock_error_ns, 0);
}

TEST_F(NodeArrivalsTest, ACollectiveIsReportedOnceItHasEndedOnAllRanksOfTheNode) {
  make(4);
  page::Record& first = pages_[0].enter(1, all_reduce, 1, 100 * ms);
  page::Record& second = pages_[1].enter(1, all_reduce, 1, 130 * ms);
  EXPECT_TRUE(look().is_empty());
  pages_[0].end(first, 140 * ms);
  // Later ones do not hide it.
  meet(2);
  EXPECT_EQ(look().sampled.at(0).samples.at(0).sequence, 2U);
  pages_[1].end(second, 900 * ms);
  const Arrivals found = look();
  ASSERT_EQ(found.sampled.size(), 1U);
  EXPECT_EQ(found.sampled[0].samples.at(0).sequence, 1U);
  EXPECT_EQ(found.sampled[0].samples.at(0).shortest, milliseconds(10)) << "until the first end here";
}

TEST_F(NodeArrivalsTest, WhatFailedOrDoesNotNeedAllRanksIsLeftOut) {
  make(4);
  for (MadePage& page : pages_) {
    page.end(page.enter(1, page::Operation::broadcast, 1, 100 * ms), 101 * ms);
    page.end(page.enter(1, all_reduce, 2, 200 * ms), 300 * ms, false);
  }
  EXPECT_TRUE(look().is_empty());
}

TEST_F(NodeArrivalsTest, NodesChooseTheSameOfManyCollectives) {
  make(4);
  for (std::uint64_t sequence = 1; sequence <= 400; ++sequence) meet(sequence);
  NodeArrivals often;  // looks four times as often
  std::set<std::uint64_t> of_often;
  std::uint32_t stride_of_often = 0;
  std::vector<MadePage> whole = std::move(pages_);
  make(4, 2);
  for (std::uint64_t sequence = 1; sequence <= 400; ++sequence) {
    meet(sequence);
    if (sequence % 100 != 0) continue;
    const Arrivals found = look(often);
    ASSERT_LE(found.sampled.at(0).samples.size(), Arrivals::most_samples);
    stride_of_often = std::max(stride_of_often, found.sampled[0].stride);
    for (const ArrivalSample& sample : found.sampled[0].samples) of_often.insert(sample.sequence);
  }
  pages_ = std::move(whole);
  const Arrivals found = look();
  ASSERT_LE(found.sampled.at(0).samples.size(), Arrivals::most_samples);
  EXPECT_GT(found.sampled[0].samples.size(), Arrivals::most_samples / 4);
  EXPECT_GT(found.sampled[0].stride, stride_of_often);
  for (const ArrivalSample& sample : found.sampled[0].samples)
    EXPECT_TRUE(of_often.contains(sample.sequence)) << sample.sequence;
}

TEST_F(NodeArrivalsTest, ManyGroupsShareTheSamples) {
  pages_.clear();
  for (int rank = 0; rank < 2; ++rank) {
    MadePage& page = pages_.emplace_back(rank, 4);
    for (std::uint32_t group = 1; group <= page::max_groups; ++group) {
      page.add_group(group, "g" + std::to_string(group));
      for (std::uint64_t sequence = 1; sequence <= 10; ++sequence)
        page.end(page.enter(group, all_reduce, sequence, 100 * ms), 101 * ms);
    }
  }
  const Arrivals found = look();
  EXPECT_LE(found.sampled.size(), Arrivals::most_sampled);
  std::size_t samples = 0;
  for (const SampledGroup& group : found.sampled) samples += group.samples.size();
  EXPECT_LE(samples, Arrivals::most_samples);
  EXPECT_GT(samples, 16U);
}

// 128 groups of the two ranks: rank 1 comes last, the later the higher the group's number.
TEST_F(NodeArrivalsTest, TheLatestRanksAreReportedFirstAndTheOthersLater) {
  pages_.clear();
  for (int rank = 0; rank < 2; ++rank) {
    MadePage& page = pages_.emplace_back(rank, 2);
    for (std::uint32_t group = 1; group <= page::max_groups; ++group) {
      page.add_group(group, "g" + std::to_string(group));
      page.enter(group, all_reduce, 1, 100 * ms + static_cast<std::int64_t>(rank == 0 ? 0 : group) * ms);
    }
  }
  std::set<std::string> names;
  const Arrivals first = look();
  EXPECT_EQ(first.compared.size(), Arrivals::most_late);
  for (const ComparedGroup& group : first.compared) {
    EXPECT_GT(group.spread, milliseconds(page::max_groups - Arrivals::most_late));
    names.insert(group.name);
  }
  for (const ComparedGroup& group : look().compared) names.insert(group.name);
  EXPECT_EQ(names.size(), page::max_groups);
  EXPECT_TRUE(look().is_empty());
}

}  // namespace
}  // namespace dlaunch::agent
