// A thread that ends while it is not needed: every call must find a running one.

#include "runtime/point_to_point/thread_on_demand.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/thread_count.h"

namespace dlaunch::internal {
namespace {

using test::soon;

// Counts its items, on a thread that ends as soon as there are no more.
class Counter {
 public:
  void add() {
    const ThreadOnDemand::Use use(thread_);
    const std::lock_guard lock(mutex_);
    ++given_;
  }

  // Whether all items are counted in the end.
  [[nodiscard]] bool has_counted(int all) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, soon(), [&] { return counted_ == all; });
  }

 private:
  void work() {
    for (;;) {
      const bool was_unused = thread_.was_unused();
      {
        const std::lock_guard lock(mutex_);
        counted_ += std::exchange(given_, 0);
        changed_.notify_all();
      }
      if (was_unused && thread_.end_if_unused()) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  int given_ = 0;
  int counted_ = 0;
  ThreadOnDemand thread_{[this] { work(); }};
};

TEST(ThreadOnDemand, IsNotThereBeforeItIsNeededAndAfterwards) {
  const std::size_t before = test::thread_count();
  Counter counter;
  EXPECT_LE(test::thread_count(), before);
  for (int i = 1; i <= 3; ++i) {
    counter.add();
    EXPECT_TRUE(counter.has_counted(i));
    EXPECT_TRUE(test::threads_end(before));
  }
}

TEST(ThreadOnDemand, MissesNoCallWhileItEnds) {
  constexpr int callers = 4;
  constexpr int calls = 2000;
  Counter counter;
  test::expect_success(test::on_threads(callers, [&](int) {
    for (int i = 0; i < calls; ++i) counter.add();
  }));
  EXPECT_TRUE(counter.has_counted(callers * calls));
}

TEST(ThreadOnDemand, StaysAsLongAsACallUsesIt) {
  std::promise<void> asked;
  bool may_end_in_use = true;
  std::unique_ptr<ThreadOnDemand> thread;
  thread = std::make_unique<ThreadOnDemand>([&] {
    may_end_in_use = thread->was_unused() || thread->end_if_unused();
    asked.set_value();
    while (!thread->was_unused() || !thread->end_if_unused()) std::this_thread::yield();
  });
  {
    const ThreadOnDemand::Use use(*thread);
    asked.get_future().wait();
    EXPECT_FALSE(may_end_in_use);
  }
  thread->join();
}

TEST(ThreadOnDemand, StartsNoMoreAfterJoin) {
  int runs = 0;
  ThreadOnDemand thread([&] { ++runs; });
  thread.join();
  thread.start();
  thread.join();
  EXPECT_EQ(runs, 0);
}

}  // namespace
}  // namespace dlaunch::internal
