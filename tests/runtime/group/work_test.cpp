// Work completes once and notifies all; OperationQueue keeps the order.

#include "dlaunch/work.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/backend/operation_queue.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
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

TEST(Work, UnobservedErrorIsLogged) {
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
  EXPECT_EQ(logged, std::vector<std::string>{"an operation failed and no call waited for it: lost"});
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

TEST(Work, ACallbackIsNeeded) {
  const WorkSource source;
  for (const Work& work : {Work(), source.work()}) {
    EXPECT_EQ(test::error_of([&] { work.then(nullptr); }), "Work::then: there is no function to call");
  }
  source.succeed();
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

// What they refer to may be the waiter's.
TEST(Work, OthersFindItCompletedWhenItsCallbacksHaveReturned) {
  for (const bool succeeds : {true, false}) {
    const WorkSource source;
    const Work work = source.work();
    const auto elsewhere = [](const auto& function) {
      return std::async(std::launch::async, function).get();
    };
    bool called = false;
    work.then([&](const Work&) {
      EXPECT_FALSE(elsewhere([&] { return work.is_completed(); }));
      EXPECT_FALSE(elsewhere([&] { return work.is_success(); }));
      EXPECT_FALSE(elsewhere([&] { return work.exception(); }));
      const std::string wait =
          elsewhere([&] { return test::error_of([&] { work.wait(std::chrono::milliseconds(1)); }); });
      EXPECT_EQ(wait, "the operation has not completed within 1 ms; it goes on");
      // One that comes too late for the others' runs at once, and learns how it ended.
      std::future<void> late = elsewhere([&] { return work.get_future(); });
      EXPECT_EQ(test::error_of([&] { late.get(); }) == "no error", succeeds);
      called = true;
    });
    // Owned by another callback: it is destroyed before any waiting thread is notified.
    auto held = std::make_shared<int>(0);
    const std::weak_ptr<int> is_held = held;
    work.then([held = std::move(held)](const Work&) {});
    std::thread waiter([&] {
      EXPECT_EQ(test::error_of([&] { work.wait(); }) == "no error", succeeds);
      EXPECT_TRUE(called);
      EXPECT_TRUE(is_held.expired());
    });
    if (succeeds) {
      source.succeed();
    } else {
      source.fail(error("lost"));
    }
    waiter.join();
    EXPECT_TRUE(work.is_completed());
  }
}

// Else it would wait for itself, or two of them for each other.
TEST(Work, InACallbackWhatHasEndedIsCompleted) {
  const WorkSource first;
  const WorkSource second;
  std::latch both(2);
  int calls = 0;
  std::mutex counting;
  const auto callback = [&](const Work& own) {
    own.wait();
    both.arrive_and_wait();  // both have ended, and neither's callbacks have returned
    for (const Work& work : {first.work(), second.work()}) {
      work.wait();
      EXPECT_TRUE(work.is_success());
    }
    const std::lock_guard lock(counting);
    ++calls;
  };
  first.work().then(callback);
  second.work().then(callback);
  std::thread other([&] { second.succeed(); });
  first.succeed();
  other.join();
  EXPECT_EQ(calls, 2);
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

// What an operation on `memory` does is noted: 10 * number for its beginning, one more for its end.
OperationQueue::Operation noting(std::vector<int>& steps, int number, std::span<const int> memory) {
  return {[&steps, number] { steps.push_back(10 * number); },
          [&steps, number] { steps.push_back(10 * number + 1); },
          {std::as_bytes(memory)}};
}

// Runs them when all have been posted.
void run_together(std::vector<OperationQueue::Operation> operations) {
  OperationQueue queue;
  std::latch all_posted(1);
  queue.post({{}, [&] { all_posted.wait(); }, {}});
  for (auto& operation : operations) queue.post(std::move(operation));
  all_posted.count_down();
  queue.drain();
}

TEST(OperationQueue, BeginsSomeAhead) {
  const int memory[10] = {};
  std::vector<int> steps;
  std::vector<OperationQueue::Operation> operations;
  for (int i = 0; i < 6; ++i) operations.push_back(noting(steps, i, std::span(memory).subspan(i, 1)));
  run_together(std::move(operations));
  static_assert(OperationQueue::begun_at_once == 3);
  EXPECT_EQ(steps, (std::vector<int>{0, 10, 20, 1, 30, 11, 40, 21, 50, 31, 41, 51}));
}

TEST(OperationQueue, DoesNotBeginWhatSharesMemory) {
  const int memory[4] = {};
  std::vector<int> steps;
  const std::span all(memory);
  run_together({noting(steps, 0, all.first(2)), noting(steps, 1, all.subspan(1, 2)),
                noting(steps, 2, all.subspan(3, 1))});
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 10, 20, 11, 21}));
}

TEST(OperationQueue, BeginsNothingBehindAnUnsplitOperation) {
  const int memory[2] = {};
  std::vector<int> steps;
  const std::span all(memory);
  run_together({noting(steps, 0, all.first(1)),
                {{}, [&] { steps.push_back(99); }, {}},
                noting(steps, 1, all.last(1))});
  EXPECT_EQ(steps, (std::vector<int>{0, 1, 99, 10, 11}));
}

TEST(OperationQueue, RunsHereWhenEverythingBeforeHasFinished) {
  OperationQueue queue;
  std::vector<int> steps;
  for (int i = 0; i < 100; ++i) {
    queue.post(noting(steps, i, {}));
    std::thread::id where;
    queue.run([&] {
      where = std::this_thread::get_id();
      EXPECT_EQ(steps.size(), static_cast<std::size_t>(2 * i + 2));
    });
    EXPECT_EQ(where, std::this_thread::get_id());
  }
}

TEST(OperationQueue, IsDrainedUntilTheDeadline) {
  OperationQueue queue;
  std::latch posted(1);
  queue.post({{}, [&] { posted.wait(); }, {}});
  EXPECT_FALSE(queue.drain(deadline_after(std::chrono::seconds(0))));
  posted.count_down();
  EXPECT_TRUE(queue.drain(deadline_after(longest_timeout)));
}

TEST(OperationQueue, HasNoThreadWhileItIsIdle) {
  OperationQueue queue;
  for (int turn = 0; turn < 2; ++turn) {
    pid_t thread = 0;
    queue.post({{}, [&] { thread = gettid(); }, {}});
    queue.drain();
    EXPECT_NE(thread, gettid());
    const std::string task = "/proc/self/task/" + std::to_string(thread);
    const Deadline limit = deadline_after(std::chrono::seconds(60));
    while (std::filesystem::exists(task) && !has_passed(limit)) std::this_thread::yield();
    EXPECT_FALSE(std::filesystem::exists(task));
  }
}

TEST(OperationQueue, RunsWhatWasPostedBeforeItEnds) {
  std::vector<int> steps;
  {
    OperationQueue queue;
    for (int i = 0; i < 20; ++i) queue.post(noting(steps, i, {}));
  }
  EXPECT_EQ(steps.size(), 40U);
}

}  // namespace
}  // namespace dlaunch::internal
