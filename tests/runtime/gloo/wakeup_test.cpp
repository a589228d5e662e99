// How a thread of the program waits for the endpoint's thread.

#include "runtime/backends/gloo/wakeup.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

class WakeupTest : public testing::Test {
 protected:
  std::mutex mutex_;
  Wakeup wakeup_;
  bool happened_ = false;  // protected by mutex_
};

TEST_F(WakeupTest, DoesNotWaitForWhatHasHappened) {
  EndpointLock lock(mutex_);
  EXPECT_TRUE(wakeup_.wait(lock, Deadline::min(), [] { return true; }));
  EXPECT_TRUE(wakeup_.wait(lock, Deadline::max(), [] { return true; }));
}

TEST_F(WakeupTest, EndsAtTheDeadline) {
  EndpointLock lock(mutex_);
  const Deadline deadline = deadline_after(std::chrono::milliseconds(20));
  EXPECT_FALSE(wakeup_.wait(lock, deadline, [] { return false; }));
  EXPECT_TRUE(has_passed(deadline));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_FALSE(wakeup_.wait(lock, Deadline::min(), [] { return false; }));
}

TEST_F(WakeupTest, AnEventEndsAWaitWithAndWithoutADeadline) {
  for (const Deadline deadline : {Deadline::max(), deadline_after(std::chrono::minutes(1))}) {
    happened_ = false;
    std::thread other([this] {
      const std::lock_guard lock(mutex_);
      happened_ = true;
      wakeup_.wake();
    });
    {
      EndpointLock lock(mutex_);
      EXPECT_TRUE(wakeup_.wait(lock, deadline, [this] { return happened_; }));
    }
    other.join();
  }
}

// Most wakes are for something else.
TEST_F(WakeupTest, ItWaitsOnIfTheConditionDoesNotHold) {
  int looks = 0;
  std::thread other([&] {
    for (bool over = false; !over; std::this_thread::yield()) {
      const std::lock_guard lock(mutex_);
      wakeup_.wake();
      over = looks >= 5;
    }
  });
  {
    EndpointLock lock(mutex_);
    EXPECT_TRUE(wakeup_.wait(lock, deadline_after(std::chrono::minutes(1)), [&] { return ++looks >= 5; }));
  }
  other.join();
}

TEST_F(WakeupTest, WakesAllThatWait) {
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([this] {
      EndpointLock lock(mutex_);
      EXPECT_TRUE(wakeup_.wait(lock, Deadline::max(), [this] { return happened_; }));
    });
  }
  {
    const std::lock_guard lock(mutex_);
    happened_ = true;
    wakeup_.wake();
  }
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace dlaunch::internal
