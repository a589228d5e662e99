#include "runtime/base/call_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

namespace dlaunch::internal {
namespace {

TEST(CallMutexTest, OneThreadAtATime) {
  constexpr int threads = 8;
  constexpr int rounds = 20'000;
  CallMutex mutex;
  long count = 0;  // protected by it
  std::latch begin(threads);
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      begin.arrive_and_wait();
      for (int round = 0; round < rounds; ++round) {
        const std::lock_guard lock(mutex);
        ++count;
      }
    });
  }
  for (std::thread& one : all) one.join();
  EXPECT_EQ(count, long{threads} * rounds);
}

// All come while it is taken, so most of them sleep in the kernel.
TEST(CallMutexTest, EveryWaitingThreadGetsItsTurn) {
  constexpr int threads = 6;
  CallMutex mutex;
  std::atomic<int> about_to_wait = 0;
  int turns = 0;  // protected by it
  std::vector<std::thread> all;
  mutex.lock();
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&] {
      ++about_to_wait;
      about_to_wait.notify_one();
      const std::lock_guard lock(mutex);
      ++turns;
    });
  }
  for (int seen = about_to_wait; seen < threads; seen = about_to_wait) about_to_wait.wait(seen);
  EXPECT_EQ(turns, 0);
  mutex.unlock();
  for (std::thread& one : all) one.join();
  EXPECT_EQ(turns, threads);
  const std::lock_guard lock(mutex);  // it is free again
}

}  // namespace
}  // namespace dlaunch::internal
