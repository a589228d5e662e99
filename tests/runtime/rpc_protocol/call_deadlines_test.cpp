// The earliest deadline comes first, in whatever order calls begin and end.

#include "runtime/rpc_protocol/call_deadlines.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>
#include <vector>

namespace dlaunch::internal {
namespace {

using std::chrono::seconds;

Deadline after(std::uint64_t time) { return Deadline(seconds(time)); }

TEST(CallDeadlines, HaveTheSameFirstAsASet) {
  CallDeadlines deadlines;
  std::set<std::pair<Deadline, std::uint64_t>> all;
  std::vector<CallDeadlines::Entry> entries;
  std::mt19937_64 random(1);
  for (std::uint64_t number = 1; number < 50'000; ++number) {
    // Mostly the same timeout.
    const Deadline deadline = after(number + (random() % 4 == 0 ? random() % 100 : 60));
    entries.push_back(deadlines.add(deadline, number));
    all.emplace(deadline, number);
    while (!entries.empty() && random() % 1000 < 500 + entries.size()) {
      const std::size_t at = random() % entries.size();
      all.erase({entries[at].deadline, entries[at].number});
      deadlines.remove(entries[at]);
      entries[at] = entries.back();
      entries.pop_back();
    }
    ASSERT_EQ(deadlines.next(), all.empty() ? Deadline::max() : all.begin()->first);
    if (all.empty()) continue;
    ASSERT_EQ(deadlines.passed(all.begin()->first - seconds(1)), std::nullopt);
    const auto passed = deadlines.passed(all.begin()->first);
    ASSERT_TRUE(passed);
    ASSERT_TRUE(all.contains({all.begin()->first, *passed}));
  }
}

// They are behind one that stays.
TEST(CallDeadlines, KeepFewOfThoseThatWereRemoved) {
  CallDeadlines deadlines;
  const CallDeadlines::Entry stays = deadlines.add(after(1), 1);
  for (std::uint64_t number = 2; number < 100'000; ++number) {
    deadlines.remove(deadlines.add(after(number), number));
    ASSERT_LT(deadlines.kept(), 2000U);
  }
  EXPECT_EQ(deadlines.next(), after(1));
  deadlines.remove(stays);
  EXPECT_EQ(deadlines.next(), Deadline::max());
}

TEST(CallDeadlines, IgnoreCallsWithoutOne) {
  CallDeadlines deadlines;
  const CallDeadlines::Entry none = deadlines.add(Deadline::max(), 1);
  const CallDeadlines::Entry some = deadlines.add(after(3), 2);
  EXPECT_EQ(deadlines.passed(after(3)), 2U);
  deadlines.remove(none);
  deadlines.remove(some);
  EXPECT_EQ(deadlines.next(), Deadline::max());
}

}  // namespace
}  // namespace dlaunch::internal
