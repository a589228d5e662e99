// Work completes once and tells everybody; WorkQueue keeps the order.

#include "dlaunch/work.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/errors.h"
#include "runtime/work_queue.h"

namespace dlaunch {
namespace {

std::exception_ptr error(const std::string& text) { return std::make_exception_ptr(DistNetworkError(text)); }

TEST(Work, MadeByDefaultHasSucceeded) {
  const Work work;
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.is_success());
  EXPECT_EQ(work.exception(), nullptr);
  work.wait();
  work.wait(std::chrono::milliseconds(0));
}

TEST(Work, AnErrorNobodyHasSeenIsLogged) {
  std::vector<std::string> logged;
  set_log_handler([&](LogLevel level, const std::string& message) {
    EXPECT_EQ(level, LogLevel::warning);
    logged.push_back(message);
  });
  {
    const WorkSource unseen;
    unseen.fail(error("lost"));
    const WorkSource waited;
    waited.fail(error("waited for"));
    EXPECT_THROW(waited.work().wait(), DistNetworkError);
    const WorkSource asked;
    asked.fail(error("asked for"));
    EXPECT_TRUE(asked.work().exception());
    const WorkSource good;
    good.succeed();
  }
  set_log_handler(nullptr);
  EXPECT_EQ(logged, std::vector<std::string>{"an operation nobody waited for has failed: lost"});
}

TEST(Work, TheFirstEndCounts) {
  const WorkSource source;
  const Work work = source.work();
  EXPECT_FALSE(work.is_completed());
  EXPECT_FALSE(work.is_success());
  source.fail(error("first"));
  source.succeed();
  source.fail(error("second"));
  EXPECT_TRUE(work.is_completed());
  EXPECT_FALSE(work.is_success());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(work.wait(), DistNetworkError);
    EXPECT_THROW(work.wait(std::chrono::milliseconds(1)), DistNetworkError);
  }
  EXPECT_EQ(message_of(work.exception()), "first");
}

TEST(Work, AWaitThatIsTooShortLeavesTheOperationAlone) {
  const WorkSource source;
  try {
    source.work().wait(std::chrono::milliseconds(1));
    FAIL();
  } catch (const DistError& e) {
    EXPECT_STREQ(e.what(), "the operation has not completed within 1 ms; it goes on");
  }
  source.succeed();
  source.work().wait(std::chrono::milliseconds(1));
}

TEST(Work, CallbacksRunOnce) {
  const WorkSource source;
  std::vector<std::string> calls;
  source.work().then([&](const Work& work) { calls.push_back(work.is_success() ? "good" : "bad"); });
  EXPECT_TRUE(calls.empty());
  source.succeed();
  source.fail(error("late"));
  EXPECT_EQ(calls, std::vector<std::string>{"good"});
  source.work().then([&](const Work&) { calls.emplace_back("at once"); });
  EXPECT_EQ(calls.back(), "at once");
}

TEST(Work, HasAFuture) {
  const WorkSource good;
  std::future<void> before = good.work().get_future();
  EXPECT_EQ(before.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  good.succeed();
  before.get();
  good.work().get_future().get();
  good.work().synchronize();
  const WorkSource bad;
  std::future<void> fails = bad.work().get_future();
  bad.fail(error("broken"));
  EXPECT_THROW(fails.get(), DistNetworkError);
  EXPECT_THROW(bad.work().synchronize(), DistNetworkError);
  Work().get_future().get();
}

TEST(Work, WakesWaitersOnOtherThreads) {
  const WorkSource source;
  std::vector<std::thread> waiters;
  waiters.reserve(4);
  for (int i = 0; i < 4; ++i) waiters.emplace_back([work = source.work()] { work.wait(); });
  source.succeed();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(WorkQueue, RunsHereWhenNothingIsBefore) {
  WorkQueue queue;
  std::thread::id where;
  queue.run([&] { where = std::this_thread::get_id(); });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(WorkQueue, KeepsTheOrderOfBothKinds) {
  std::vector<int> order;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; i += 2) {
      queue.post([&order, i] { order.push_back(i); });
      queue.run([&order, i] { order.push_back(i + 1); });
    }
    queue.post([&order] { order.push_back(100); });  // runs before the queue ends
  }
  ASSERT_EQ(order.size(), 101U);
  for (int i = 0; i < 101; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(WorkQueue, DrainWaitsForAll) {
  WorkQueue queue;
  std::mutex gate;
  gate.lock();
  bool done = false;
  queue.post([&] {
    const std::lock_guard lock(gate);
    done = true;
  });
  gate.unlock();
  queue.drain();
  EXPECT_TRUE(done);
  queue.drain();
}

}  // namespace
}  // namespace dlaunch
