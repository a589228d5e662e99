#include "runtime/shared_memory/extents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace dlaunch::internal {
namespace {

TEST(Extents, ATakenPartIsNotFree) {
  Extents extents(100, 30);
  EXPECT_EQ(extents.take(10), 100U);
  EXPECT_EQ(extents.take(20), 110U);
  EXPECT_EQ(extents.take(1), std::nullopt);
}

TEST(Extents, ARangeWithoutBytesHasNone) { EXPECT_EQ(Extents(7, 0).take(1), std::nullopt); }

TEST(Extents, WhatIsGivenBackIsTakenAgain) {
  Extents extents(0, 30);
  extents.take(10);
  const auto middle = extents.take(10);
  extents.take(10);
  EXPECT_EQ(extents.give_back(*middle), 10U);
  EXPECT_EQ(extents.take(11), std::nullopt);
  EXPECT_EQ(extents.take(4), 10U);
  EXPECT_EQ(extents.take(6), 14U);
}

// Any order of giving back ends with one part as long as all.
TEST(Extents, NeighboursBecomeOnePart) {
  std::mt19937 random(1);
  for (int seed = 0; seed < 200; ++seed) {
    constexpr std::size_t whole = 1000;
    Extents extents(0, whole);
    std::map<std::size_t, std::size_t> taken;
    for (int step = 0; step < 100; ++step) {
      if (random() % 2 == 0 || taken.empty()) {
        const std::size_t size = 1 + random() % 90;
        const auto begin = extents.take(size);
        if (!begin) continue;
        const auto after = taken.upper_bound(*begin);
        ASSERT_TRUE(after == taken.end() || *begin + size <= after->first);
        ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second <= *begin);
        ASSERT_LE(*begin + size, whole);
        taken.emplace(*begin, size);
      } else {
        const auto one = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
        ASSERT_EQ(extents.give_back(one->first), one->second);
        taken.erase(one);
      }
    }
    for (const auto& [begin, size] : taken) extents.give_back(begin);
    ASSERT_EQ(extents.take(whole), 0U);
  }
}

}  // namespace
}  // namespace dlaunch::internal
