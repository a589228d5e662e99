// Values are found by their numbers, whichever others have come and gone.

#include "runtime/rpc_protocol/number_table.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>

namespace dlaunch::internal {
namespace {

TEST(NumberTable, HoldsTheSameAsAMap) {
  NumberTable<std::uint64_t> table;
  std::map<std::uint64_t, std::uint64_t> all;
  std::mt19937_64 random(1);
  std::uint64_t last = 0;
  for (std::uint64_t step = 0; step < 100'000; ++step) {
    const bool grows = step / 10'000 % 2 == 0;
    if (all.empty() || random() % 8 < (grows ? 5U : 3U)) {
      last += random() % 16 == 0 ? 1000U : 1U;
      EXPECT_EQ(table.add(last, step), step);
      all.emplace(last, step);
    } else {
      auto at = all.lower_bound(random() % (last + 1));
      if (at == all.end()) at = all.begin();
      EXPECT_EQ(table.take(at->first), at->second);
      EXPECT_EQ(table.find(at->first), nullptr);
      all.erase(at);
    }
    ASSERT_EQ(table.size(), all.size());
    if (step % 1000 != 0) continue;
    for (const auto& [number, value] : all) {
      ASSERT_NE(table.find(number), nullptr);
      ASSERT_EQ(*table.find(number), value);
    }
    std::map<std::uint64_t, std::uint64_t> visited;
    table.for_each([&](std::uint64_t number, std::uint64_t value) { visited.emplace(number, value); });
    ASSERT_EQ(visited, all);
  }
}

TEST(NumberTable, HasNoNumberZero) {
  NumberTable<int> table;
  EXPECT_EQ(table.find(0), nullptr);
  table.add(1, 5);
  EXPECT_EQ(table.find(0), nullptr);
}

TEST(NumberTable, KeepsNothingOfWhatIsTaken) {
  NumberTable<std::shared_ptr<int>> table;
  const auto value = std::make_shared<int>(1);
  for (std::uint64_t number = 1; number <= 10'000; ++number) table.add(number, value);
  for (std::uint64_t number = 1; number <= 10'000; ++number) EXPECT_EQ(table.take(number), value);
  EXPECT_EQ(value.use_count(), 1);
  table.add(10'001, value);
  EXPECT_EQ(*table.find(10'001), value);
}

}  // namespace
}  // namespace dlaunch::internal
