// Deadlines of waiting entries.

#include "runtime/base/deadline_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace dlaunch::internal {
namespace {

Deadline at(int seconds) { return Deadline() + std::chrono::seconds(seconds); }

TEST(DeadlineQueue, HasNoDeadlineWhenItIsEmpty) {
  DeadlineQueue<std::string> queue;
  EXPECT_TRUE(queue.is_empty());
  EXPECT_EQ(queue.next(), Deadline::max());
  EXPECT_EQ(queue.passed(Deadline::max()), std::nullopt);
}

TEST(DeadlineQueue, TheEarliestComesFirst) {
  DeadlineQueue<std::string> queue;
  const auto late = queue.add(at(9), "late");
  const auto early = queue.add(at(2), "early");
  EXPECT_FALSE(queue.is_empty());
  EXPECT_EQ(queue.next(), at(2));
  EXPECT_EQ(queue.passed(at(1)), std::nullopt);
  EXPECT_EQ(queue.passed(at(2)), "early");   // at the deadline itself it has passed
  EXPECT_EQ(queue.passed(at(20)), "early");  // the caller removes it
  queue.remove(early);
  EXPECT_EQ(queue.next(), at(9));
  queue.remove(late);
  EXPECT_TRUE(queue.is_empty());
}

TEST(DeadlineQueue, EntriesOfOneDeadlineKeepTheirOrder) {
  DeadlineQueue<int> queue;
  std::vector<DeadlineQueue<int>::Entry> entries;
  for (int i = 0; i < 5; ++i) entries.push_back(queue.add(at(1), i));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(queue.passed(at(1)), i);
    queue.remove(entries[static_cast<std::size_t>(i)]);
  }
}

TEST(DeadlineQueue, AgreesWithASearchThroughAll) {
  std::mt19937 random(11);
  DeadlineQueue<int> queue;
  std::map<int, std::pair<Deadline, DeadlineQueue<int>::Entry>> all;
  for (int i = 0; i < 5000; ++i) {
    if (all.empty() || random() % 3 != 0) {
      const Deadline deadline = at(static_cast<int>(random() % 50));
      all.emplace(i, std::pair(deadline, queue.add(deadline, i)));
    } else {
      const auto victim = std::next(all.begin(), static_cast<std::ptrdiff_t>(random() % all.size()));
      queue.remove(victim->second.second);
      all.erase(victim);
    }
    Deadline earliest = Deadline::max();
    for (const auto& [what, entry] : all) earliest = std::min(earliest, entry.first);
    ASSERT_EQ(queue.next(), earliest);
    if (const std::optional<int> passed = queue.passed(earliest)) {
      ASSERT_EQ(all.at(*passed).first, earliest);
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
