#include "runtime/backends/nccl/nccl_watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What the watchdog sees, as a test sets it.
class World {
 public:
  CudaEvent event() {
    return {reinterpret_cast<cudaEvent_t>(++events_), [](cudaEvent_t) {}};
  }
  void reach(const CudaEvent& event) {
    const std::lock_guard lock(mutex_);
    reached_.insert(event.get());
  }
  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    failure_ = reason;
  }
  // Queries wait until the result is gone.
  [[nodiscard]] std::unique_lock<std::mutex> stop() { return std::unique_lock(mutex_); }
  [[nodiscard]] int confirmed() {
    const std::lock_guard lock(mutex_);
    return confirmed_;
  }
  [[nodiscard]] int given_up() const { return given_up_; }
  void blame(std::string who) { late_ = std::move(who); }

  NcclWatchdog::Outside outside() {
    return {.enter_thread = [] {},
            .is_reached =
                [this](const CudaEvent& event) {
                  const std::lock_guard lock(mutex_);
                  const bool is_there = reached_.contains(event.get());
                  if (is_there) ++confirmed_;
                  return is_there;
                },
            .check =
                [this] {
                  const std::lock_guard lock(mutex_);
                  if (!failure_.empty()) throw DistNetworkError(failure_, {.peer = 1});
                },
            .explain_delay =
                [this](std::uint64_t late) {
                  if (!late_.empty()) throw DistNetworkError(late_ + std::to_string(late));
                },
            .give_up =
                [this](std::exception_ptr reason) {
                  ++given_up_;
                  return reason;
                },
            .after_failure = [](const std::exception_ptr&) {}};
  }

 private:
  std::uintptr_t events_ = 0;
  std::mutex mutex_;
  std::set<cudaEvent_t> reached_;
  std::string failure_;
  std::string late_;
  int confirmed_ = 0;  // protected by mutex_
  std::atomic<int> given_up_ = 0;
};

std::string ending(const Work& work) {
  try {
    work.wait();
    return "success";
  } catch (const DistError& e) {
    return e.reason();
  }
}

struct NcclWatchdogTest : testing::Test {
  World world;
  GroupEnd end;
  NcclWatchdog watchdog{end, world.outside()};

  Work watch(const CudaEvent& event, std::uint64_t sequence = 1, milliseconds timeout = seconds(60)) {
    const WorkSource source;
    watchdog.watch(
        {.sequence = sequence, .deadline = deadline_after(timeout), .end = event, .source = source});
    return source.work();
  }
};

TEST_F(NcclWatchdogTest, CompletesWorksWhenTheirEndIsReached) {
  const CudaEvent first = world.event();
  const CudaEvent second = world.event();
  const Work one = watch(first);
  const Work two = watch(second);
  EXPECT_FALSE(one.is_completed());
  world.reach(first);
  EXPECT_EQ(ending(one), "success");
  EXPECT_FALSE(two.is_completed());
  world.reach(second);
  EXPECT_EQ(ending(two), "success");
  EXPECT_TRUE(watchdog.drain(deadline_after(seconds(20))));
  EXPECT_EQ(world.given_up(), 0);
}

TEST_F(NcclWatchdogTest, OneToWhichTheDeviceHasNotComeIsLateForAnotherReason) {
  const WorkSource source;
  watchdog.watch({.sequence = 1,
                  .deadline = deadline_after(milliseconds(1)),
                  .begin = world.event(),
                  .awaits_begin = true,
                  .end = world.event(),
                  .source = source});
  EXPECT_EQ(ending(source.work()),
            "the GPU has not come to the operation before its deadline: it still works on what was started "
            "before it");
}

// Records the reports about operations without a Work.
class Observer final : public UnseenOperation::Observer {
 public:
  void on_start(UnseenOperation& /*operation*/, bool /*reports_begin*/) noexcept override {}
  void on_begin(const UnseenOperation& operation) noexcept override { note(operation, "begins"); }
  void on_end(const UnseenOperation& operation, const std::exception_ptr& error) noexcept override {
    try {
      if (error) std::rethrow_exception(error);
      note(operation, "ends");
    } catch (const DistError& e) {
      note(operation, e.reason());
    }
  }
  // When there are so many lines.
  std::vector<std::string> lines(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, seconds(20), [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  void note(const UnseenOperation& operation, const std::string& what) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::to_string(static_cast<int>(operation.notes[0])) + " " + what);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
};

TEST_F(NcclWatchdogTest, ReportsOperationsWithoutAWorkToTheirObserver) {
  Observer observer;
  const auto start = [&](int number, const CudaEvent& begin, const CudaEvent& ended) {
    UnseenOperation operation{.observer = &observer};
    operation.notes[0] = static_cast<std::byte>(number);
    NcclWatchdog::Watched& next = watchdog.next();
    next = {.deadline = deadline_after(seconds(60)),
            .begin = begin,
            .awaits_begin = true,
            .end = ended,
            .unseen = operation};
    watchdog.watch_next();
  };
  const CudaEvent begin = world.event();
  const CudaEvent ended = world.event();
  start(1, begin, ended);
  start(2, world.event(), world.event());
  world.reach(begin);
  EXPECT_EQ(observer.lines(1), std::vector<std::string>{"1 begins"});
  world.reach(ended);
  EXPECT_EQ(observer.lines(2), (std::vector<std::string>{"1 begins", "1 ends"}));
  world.fail("it died");
  EXPECT_EQ(observer.lines(3), (std::vector<std::string>{"1 begins", "1 ends", "2 it died"}));
  start(3, world.event(), world.event());
  EXPECT_EQ(observer.lines(4).back(), "3 it died");
}

TEST_F(NcclWatchdogTest, TheEndOfManyIsFoundByFewQueries) {
  constexpr int many = 1000;
  std::vector<CudaEvent> events;
  for (int i = 0; i < many; ++i) world.reach(events.emplace_back(world.event()));
  std::vector<Work> works;
  auto stopped = world.stop();
  for (const CudaEvent& event : events) works.push_back(watch(event));
  const Work last = watch(world.event());
  stopped.unlock();
  for (const Work& work : works) EXPECT_EQ(ending(work), "success");
  EXPECT_FALSE(last.is_completed());
  EXPECT_LT(world.confirmed(), 20);
}

TEST_F(NcclWatchdogTest, AnErrorEndsAllOfThem) {
  const Work one = watch(world.event());
  const Work two = watch(world.event());
  world.fail("it died");
  EXPECT_EQ(ending(one), "it died");
  EXPECT_EQ(ending(two), "it died");
  EXPECT_EQ(world.given_up(), 1);
  EXPECT_EQ(ending(watch(world.event())), "it died");
}

TEST_F(NcclWatchdogTest, ALateOneEndsAllAndNamesTheMissingRanks) {
  world.blame("rank 2 has not come to ");
  const Work patient = watch(world.event(), 1);
  const Work hasty = watch(world.event(), 2, milliseconds(1));
  EXPECT_EQ(ending(patient), "rank 2 has not come to 2");
  EXPECT_EQ(ending(hasty), "rank 2 has not come to 2");
}

TEST_F(NcclWatchdogTest, ALateOneHasAReasonIfNobodyIsMissing) {
  EXPECT_EQ(ending(watch(world.event(), 1, milliseconds(1))),
            "the operation has not ended on the GPU before its deadline: a rank has not come, or its GPU "
            "still works on something else");
}

// The only one that could find out is inside.
TEST_F(NcclWatchdogTest, AThreadThatDoesNotReturnFromNcclEndsTheGroup) {
  world.blame("rank 2 has not come to ");
  const Work before = watch(world.event(), 1);
  {
    const NcclWatchdog::Inside inside(watchdog, 7, deadline_after(milliseconds(1)));
    EXPECT_EQ(ending(before), "rank 2 has not come to 7");
  }
  EXPECT_EQ(world.given_up(), 1);
  EXPECT_EQ(ending(watch(world.event())), "rank 2 has not come to 7");
}

TEST_F(NcclWatchdogTest, AThreadInsideNcclNeedsNoRunningOperation) {
  const NcclWatchdog::Inside inside(watchdog, 7, deadline_after(milliseconds(1)));
  while (world.given_up() == 0) std::this_thread::yield();
  EXPECT_EQ(ending(watch(world.event())),
            "the call of NCCL has not returned before the deadline of the operation: it may wait for another "
            "rank to connect");
}

// Its deadline passes afterwards.
TEST_F(NcclWatchdogTest, AThreadThatReturnsInTimeEndsNothing) {
  const Deadline deadline = deadline_after(milliseconds(300));
  { const NcclWatchdog::Inside inside(watchdog, 7, deadline); }
  std::this_thread::sleep_until(deadline);
  const CudaEvent event = world.event();
  world.reach(event);
  EXPECT_EQ(ending(watch(event)), "success");
  EXPECT_EQ(world.given_up(), 0);
}

TEST_F(NcclWatchdogTest, TheEndOfTheGroupEndsThem) {
  const Work one = watch(world.event());
  end.set(std::make_exception_ptr(DistNetworkError("aborted")));
  watchdog.wake();
  EXPECT_EQ(ending(one), "aborted");
  EXPECT_EQ(world.given_up(), 1);
}

// An operation may be about to start, and nobody else would abort it.
TEST_F(NcclWatchdogTest, ItGivesUpWithoutARunningOperation) {
  end.set(std::make_exception_ptr(DistNetworkError("aborted")));
  watchdog.wake();
  while (world.given_up() == 0) std::this_thread::yield();
  EXPECT_EQ(ending(watch(world.event())), "aborted");
  EXPECT_EQ(world.given_up(), 1);
}

// The thread looks for the end of the group as long as it is awake, and the destructor sets that end.
TEST(NcclWatchdog, ItsEndWithoutRunningOperationsIsNoFailure) {
  World world;
  const CudaEvent event = world.event();
  world.reach(event);
  for (int i = 0; i < 3000; ++i) {
    GroupEnd end;
    NcclWatchdog watchdog(end, world.outside());
    const WorkSource source;
    watchdog.watch({.sequence = 1, .deadline = deadline_after(seconds(60)), .end = event, .source = source});
    ASSERT_TRUE(watchdog.drain(deadline_after(seconds(60))));
    const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(i % 100);
    while (std::chrono::steady_clock::now() < until) {
    }
  }
  EXPECT_EQ(world.given_up(), 0);
}

TEST(NcclWatchdog, ItsEndIsAnErrorOfRunningOperations) {
  World world;
  GroupEnd end;
  const WorkSource source;
  {
    NcclWatchdog watchdog(end, world.outside());
    watchdog.watch(
        {.sequence = 1, .deadline = deadline_after(seconds(60)), .end = world.event(), .source = source});
    EXPECT_FALSE(watchdog.drain(deadline_after(milliseconds(1))));
  }
  EXPECT_EQ(ending(source.work()), "the group was destroyed before the operation had ended");
}

}  // namespace
}  // namespace dlaunch::internal
