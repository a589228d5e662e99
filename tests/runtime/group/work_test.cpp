// Work completes once and notifies all.

#include "dlaunch/work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/api/error_strings.h"

namespace dlaunch::internal {
namespace {

std::exception_ptr network_error(const std::string& text) {
  return std::make_exception_ptr(DistNetworkError(text));
}

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
    unseen.fail(network_error("lost"));
    const WorkSource waited;
    waited.fail(network_error("waited for"));
    EXPECT_THROW(waited.work().wait(), DistNetworkError);
    const WorkSource asked;
    asked.fail(network_error("asked for"));
    EXPECT_TRUE(asked.work().exception());
    const WorkSource good;
    good.succeed();
  }
  set_log_handler(nullptr);
  EXPECT_EQ(logged, std::vector<std::string>{"an operation failed and no call waited for it: lost"});
}

TEST(Work, OnAStreamTheCallersStreamWaitsInItsPlace) {
  int ordered = 0;
  const WorkSource source([&] {
    ++ordered;
    return true;
  });
  const Work work = source.work();
  EXPECT_TRUE(work.is_on_stream());
  work.wait();
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.is_success());
  EXPECT_EQ(ordered, 3);
  EXPECT_FALSE(work.has_ended());
  EXPECT_THROW(work.wait(std::chrono::milliseconds(1)), DistError);
  source.succeed();
  EXPECT_TRUE(work.has_ended());
  work.synchronize();
  EXPECT_TRUE(work.order_stream());
  EXPECT_EQ(ordered, 3);  // nothing is left to wait for
}

TEST(Work, OnAStreamAFailureIsThrownByTheNextCall) {
  const WorkSource source([] { return true; });
  source.work().wait();
  source.fail(network_error("lost"));
  EXPECT_FALSE(source.work().order_stream());
  EXPECT_FALSE(source.work().is_success());
  EXPECT_THROW(source.work().wait(), DistNetworkError);
}

TEST(Work, ThatCannotBeOrderedIsWaitedFor) {
  const WorkSource source([] { return false; });
  EXPECT_FALSE(source.work().is_completed());
  std::thread ending([&] { source.succeed(); });
  source.work().wait();
  EXPECT_TRUE(source.work().has_ended());
  ending.join();
  const WorkSource on_host;
  EXPECT_FALSE(on_host.work().is_on_stream());
  EXPECT_FALSE(on_host.work().order_stream());
}

TEST(Work, TheFirstEndCounts) {
  const WorkSource source;
  const Work work = source.work();
  EXPECT_FALSE(work.is_completed());
  EXPECT_FALSE(work.is_success());
  source.fail(network_error("first"));
  source.succeed();
  source.fail(network_error("second"));
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
  source.fail(network_error("late"));
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
      source.fail(network_error("lost"));
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

// The graph runs later: each of these makes the current stream wait for the operation in it.
TEST(Work, OfACapturedOperationOrdersTheStreamInEachCall) {
  int orders = 0;
  const WorkSource source = WorkSource::of_captured([&] {
    ++orders;
    return true;
  });
  source.succeed();
  const Work work = source.work();
  EXPECT_TRUE(work.is_completed());
  EXPECT_TRUE(work.is_success());
  EXPECT_TRUE(work.order_stream());
  work.wait();
  EXPECT_EQ(orders, 4);
  EXPECT_TRUE(work.has_ended());
  EXPECT_EQ(orders, 4);
}

TEST(Work, OfAStreamNeedsNoOrderOnceItHasSucceeded) {
  int orders = 0;
  const WorkSource source([&] { return ++orders > 0; });
  const Work work = source.work();
  EXPECT_TRUE(work.is_completed());
  EXPECT_EQ(orders, 1);
  source.succeed();
  EXPECT_TRUE(work.is_completed());
  work.wait();
  EXPECT_EQ(orders, 1);
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
  bad.fail(network_error("broken"));
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

}  // namespace
}  // namespace dlaunch::internal
