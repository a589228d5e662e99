#include "runtime/base/slot_queue.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace dlaunch::internal {
namespace {

void push(SlotQueue<int>& queue, int value) {
  queue.next() = value;
  queue.push();
}

TEST(SlotQueue, KeepsTheOrderHoweverManyThereAre) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    SlotQueue<int> queue;
    int pushed = 0;
    int released = 0;
    for (int turn = 0; turn < 500; ++turn) {
      for (auto count = random() % 100; count > 0; --count) push(queue, pushed++);
      ASSERT_EQ(queue.size(), static_cast<std::size_t>(pushed - released));
      for (std::size_t i = 0; i < queue.size(); ++i) ASSERT_EQ(queue.at(i), released + static_cast<int>(i));
      const auto count = random() % (queue.size() + 1);
      queue.release(count);
      released += static_cast<int>(count);
    }
  }
}

TEST(SlotQueue, UsesReleasedSlotsAgain) {
  SlotQueue<std::shared_ptr<int>> queue;
  std::vector<std::weak_ptr<int>> kept;
  for (int i = 0; i < 10'000; ++i) {
    queue.next() = std::make_shared<int>(i);
    kept.emplace_back(queue.next());
    queue.push();
    queue.release(1);
  }
  std::size_t alive = 0;
  for (const std::weak_ptr<int>& one : kept) alive += one.expired() ? 0 : 1;
  EXPECT_LE(alive, 64U);
  EXPECT_GE(alive, 1U);
}

TEST(SlotQueue, GoesFromOneThreadToAnother) {
  constexpr int all = 200'000;
  SlotQueue<int> queue;
  std::thread producer([&] {
    for (int i = 0; i < all; ++i) push(queue, i);
  });
  int wrong = 0;
  for (int next = 0; next < all;) {
    const std::size_t size = queue.size();
    for (std::size_t i = 0; i < size; ++i) wrong += queue.at(i) == next + static_cast<int>(i) ? 0 : 1;
    queue.release(size);
    next += static_cast<int>(size);
  }
  producer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(queue.size(), 0U);
}

}  // namespace
}  // namespace dlaunch::internal
