// Announced messages and their deadlines.

#include "runtime/point_to_point/pending_messages.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace dlaunch::internal {
namespace {

Deadline second_of(int seconds) { return Deadline() + std::chrono::seconds(seconds); }

TEST(PendingMessages, AreFoundByPeerAndNumber) {
  PendingMessages<int> pending;
  EXPECT_TRUE(pending.is_empty());
  EXPECT_EQ(pending.next_deadline(), Deadline::max());
  pending.add({1, 5}, second_of(5), 15);
  pending.add({2, 5}, second_of(3), 25);
  pending.add({1, 4}, second_of(4), 14);
  EXPECT_EQ(*pending.find({2, 5}), 25);
  EXPECT_EQ(pending.find({2, 4}), nullptr);
  EXPECT_EQ(pending.next_deadline(), second_of(3));
  EXPECT_EQ(pending.take({2, 5}), 25);
  EXPECT_EQ(pending.take({2, 5}), std::nullopt);
  EXPECT_EQ(pending.take_expired(second_of(3)), std::nullopt);
  EXPECT_EQ(pending.take_expired(second_of(4)), 14);
  EXPECT_EQ(pending.next_deadline(), second_of(5));
  EXPECT_FALSE(pending.is_empty());
}

TEST(PendingMessages, OfOnePeerAreTakenInTheirOrder) {
  PendingMessages<int> pending;
  for (const int number : {9, 2, 5, 4, 7}) {
    pending.add({number % 2, static_cast<std::uint64_t>(number)}, second_of(number), number);
  }
  EXPECT_EQ(pending.take_all(1), (std::vector<int>{5, 7, 9}));
  EXPECT_EQ(pending.take_all(std::nullopt), (std::vector<int>{2, 4}));
  EXPECT_TRUE(pending.is_empty());
}

// A rank's number and a peer are not mixed up, however large they are.
TEST(PendingMessages, OfManyPeersAndLargeNumbersAreApart) {
  PendingMessages<int> pending;
  const std::uint64_t numbers[] = {0, 1, std::uint64_t{1} << 40U, (std::uint64_t{1} << 40U) + 1};
  int next = 0;
  for (const int peer : {0, 1, 70'000}) {
    for (const std::uint64_t number : numbers) pending.add({peer, number}, second_of(1), next++);
  }
  next = 0;
  for (const int peer : {0, 1, 70'000}) {
    for (const std::uint64_t number : numbers) EXPECT_EQ(pending.take({peer, number}), next++);
  }
  EXPECT_TRUE(pending.is_empty());
}

TEST(PendingMessages, WithoutMessagesNothingIsTaken) {
  PendingMessages<std::unique_ptr<int>> pending;
  EXPECT_EQ(pending.take({0, 0}), std::nullopt);
  EXPECT_EQ(pending.take_expired(Deadline::max()), std::nullopt);
  EXPECT_TRUE(pending.take_all(std::nullopt).empty());
  pending.add({0, 0}, second_of(1), std::make_unique<int>(7));  // a message may own something
  EXPECT_EQ(**pending.find({0, 0}), 7);
  EXPECT_EQ(**pending.take_expired(second_of(1)), 7);
  EXPECT_TRUE(pending.is_empty());
}

}  // namespace
}  // namespace dlaunch::internal
