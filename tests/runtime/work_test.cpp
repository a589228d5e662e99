// Work completes once and tells everybody; WorkQueue keeps the order; Lanes seem to.

#include "dlaunch/work.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dlaunch/debug.h"
#include "dlaunch/error.h"
#include "runtime/errors.h"
#include "runtime/lanes.h"
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

TEST(Work, WakesWaitersOnOtherThreads) {
  const WorkSource source;
  std::vector<std::thread> waiters;
  waiters.reserve(4);
  for (int i = 0; i < 4; ++i) waiters.emplace_back([work = source.work()] { work.wait(); });
  source.succeed();
  for (std::thread& waiter : waiters) waiter.join();
}

TEST(WorkQueue, KeepsTheOrder) {
  std::vector<int> order;
  {
    WorkQueue queue;
    for (int i = 0; i < 100; ++i) {
      queue.post([&order, i] { order.push_back(i); });  // the last ones run before the queue ends
    }
  }
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
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

// An operation on `memory` that does `run` and notes its number when it is reported.
struct Reports {
  Lanes::Operation operation(std::uint64_t number, std::span<const int> memory,
                             std::function<void(int lane)> run) {
    return {number, Lanes::Memory{std::as_bytes(memory)}, std::move(run),
            [this, number] { numbers.push_back(number); }};
  }
  std::vector<std::uint64_t> numbers;
};

TEST(Lanes, RunOperationsOfSeparateMemoryAtOnce) {
  const int memory[2] = {};
  Reports reports;
  Lanes lanes(2);
  std::latch both(2);
  for (std::uint64_t number = 0; number < 2; ++number) {
    lanes.post(reports.operation(number, std::span(memory).subspan(number, 1), [&both, number](int lane) {
      EXPECT_EQ(lane, static_cast<int>(number));
      both.arrive_and_wait();  // neither ends before the other has begun
    }));
  }
  lanes.drain();
  EXPECT_EQ(reports.numbers, (std::vector<std::uint64_t>{0, 1}));
}

TEST(Lanes, KeepTheOrderOnSharedMemory) {
  int value = 0;
  Reports reports;
  std::vector<std::uint64_t> wanted;
  {
    Lanes lanes(3);
    for (std::uint64_t number = 1; number <= 300; ++number) {
      wanted.push_back(number);
      lanes.post(reports.operation(number, std::span(&value, 1), [&, number](int) {
        EXPECT_EQ(value, static_cast<int>(number) - 1);
        value = static_cast<int>(number);
      }));
    }
  }
  EXPECT_EQ(value, 300);
  EXPECT_EQ(reports.numbers, wanted);
}

TEST(Lanes, KeepTheOrderAroundOneThatIsAlone) {
  const int memory[3] = {};
  Reports reports;
  std::vector<int> order;
  Lanes lanes(3);
  std::latch posted(1);
  lanes.post(reports.operation(0, std::span(memory).first(1), [&](int) {
    posted.wait();
    order.push_back(0);
  }));
  lanes.post({1, std::nullopt, [&](int) { order.push_back(1); }, [] {}});
  lanes.post(reports.operation(2, std::span(memory).last(1), [&](int) { order.push_back(2); }));
  posted.count_down();
  lanes.drain();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(Lanes, ReportInOrder) {
  const int memory[2] = {};
  Reports reports;
  std::latch second_ran(1);
  Lanes lanes(2);
  lanes.post(reports.operation(0, std::span(memory).first(1), [&](int) { second_ran.wait(); }));
  lanes.post(reports.operation(1, std::span(memory).last(1), [&](int) { second_ran.count_down(); }));
  lanes.drain();
  EXPECT_EQ(reports.numbers, (std::vector<std::uint64_t>{0, 1}));
}

TEST(Lanes, RunHereWhenEverythingBeforeHasEnded) {
  Lanes lanes(2);
  Reports reports;
  for (std::uint64_t number = 0; number < 100; number += 2) {
    lanes.post(reports.operation(number, {}, [](int) {}));
    std::thread::id where;
    lanes.run(number + 1, [&](int lane) {
      where = std::this_thread::get_id();
      EXPECT_EQ(lane, 1);
      EXPECT_EQ(reports.numbers.size(), number / 2 + 1);
    });
    EXPECT_EQ(where, std::this_thread::get_id());
  }
}

}  // namespace
}  // namespace dlaunch
