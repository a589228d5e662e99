// Objects that a copy of the process closes.

#include "runtime/base/close_on_fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/runtime/forked_copies.h"

namespace dlaunch::internal {
namespace {

struct Probe {
  int closes = 0;
  void close_in_child() { ++closes; }
};

using test::exit_code_of_copy;

class Registered {
 public:
  explicit Registered(std::vector<Probe>& probes) {
    auto& registry = CloseOnFork<Probe>::get();
    const std::lock_guard lock(registry.mutex);
    for (Probe& probe : probes) registry.all.push_back(&probe);
  }
  ~Registered() {
    auto& registry = CloseOnFork<Probe>::get();
    const std::lock_guard lock(registry.mutex);
    registry.all.clear();
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
};

TEST(CloseOnFork, ClosesEachObjectOnceInTheCopyAndNoneInTheOriginal) {
  std::vector<Probe> probes(3);
  const Registered registered(probes);
  EXPECT_EQ(exit_code_of_copy([&] {
              for (const Probe& probe : probes) {
                if (probe.closes != 1) return 1;
              }
              return CloseOnFork<Probe>::get().all.empty() ? 0 : 2;
            }),
            0);
  for (const Probe& probe : probes) EXPECT_EQ(probe.closes, 0);
  EXPECT_EQ(CloseOnFork<Probe>::get().all.size(), 3U);
}

// What a copy of the copy closes is its own; neither process keeps the mutex.
TEST(CloseOnFork, ACopyMayRegisterObjectsAndForkAgain) {
  std::vector<Probe> probes(1);
  const Registered registered(probes);
  Probe own;
  EXPECT_EQ(exit_code_of_copy([&] {
              auto& registry = CloseOnFork<Probe>::get();
              if (!registry.mutex.try_lock()) return 3;
              registry.all.push_back(&own);  // its memory is that of the original's list
              registry.mutex.unlock();
              return exit_code_of_copy([&] { return own.closes == 1 && probes[0].closes == 1 ? 0 : 1; });
            }),
            0);
  auto& registry = CloseOnFork<Probe>::get();
  EXPECT_TRUE(registry.mutex.try_lock());
  registry.mutex.unlock();
}

// An object may be made or moved by another thread at the moment of the fork.
TEST(CloseOnFork, NoProcessIsForkedWhileTheMutexIsHeld) {
  std::atomic<bool> over = false;
  bool half_made = false;
  std::latch begun(1);
  std::thread maker([&] {
    auto& registry = CloseOnFork<Probe>::get();
    begun.count_down();
    while (!over) {
      const std::lock_guard lock(registry.mutex);
      half_made = true;
      std::this_thread::yield();
      half_made = false;
    }
  });
  begun.wait();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(exit_code_of_copy([&] { return half_made ? 1 : 0; }), 0);
  }
  over = true;
  maker.join();
}

}  // namespace
}  // namespace dlaunch::internal
