// What a task holds is called where the task is, and destroyed once.

#include "runtime/base/task.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace dlaunch::internal {
namespace {

class TaskOfSize : public testing::TestWithParam<bool> {
 protected:
  Task make() {
    if (GetParam()) return [this, held = held_] { ++calls_; };
    return [this, held = held_, large = std::array<char, 100>()] { calls_ += 1 + large[99]; };
  }
  std::shared_ptr<int> held_ = std::make_shared<int>(0);
  int calls_ = 0;
};

TEST_P(TaskOfSize, IsCalledAfterMoves) {
  Task first = make();
  first();
  Task second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is tested
  second();
  Task third;
  EXPECT_FALSE(third);
  third = std::move(second);
  third();
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(held_.use_count(), 2);
}

TEST_P(TaskOfSize, DestroysWhatItHoldsOnce) {
  {
    Task task = make();
    task = make();
    EXPECT_EQ(held_.use_count(), 2);
    const Task moved = std::move(task);
    EXPECT_EQ(held_.use_count(), 2);
  }
  EXPECT_EQ(held_.use_count(), 1);
  Task task = make();
  task.reset();
  EXPECT_FALSE(task);
  EXPECT_EQ(held_.use_count(), 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TaskOfSize, testing::Bool());

}  // namespace
}  // namespace dlaunch::internal
