// The operations of a group run in the order of the calls; some begin ahead.

#include "runtime/backend/operation_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <latch>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

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
  for (std::size_t i = 0; i < 6; ++i)
    operations.push_back(noting(steps, static_cast<int>(i), std::span(memory).subspan(i, 1)));
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

TEST(OperationQueue, IsDrainedBeforeAnOperationOfTheCaller) {
  OperationQueue queue;
  std::vector<int> steps;
  for (int i = 0; i < 100; ++i) {
    queue.post(noting(steps, i, {}));
    queue.drain_before();
    EXPECT_EQ(steps.size(), static_cast<std::size_t>(2 * i + 2));
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
