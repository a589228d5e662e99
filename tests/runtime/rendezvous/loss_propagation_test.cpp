// A failure waits a moment for its cause.

#include "runtime/rendezvous/loss_propagation.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

#include "runtime/base/deadline.h"

namespace dlaunch::internal {
namespace {

TEST(WaitForRootError, EndsWithTheCauseBeforeTheDeadline) {
  int checks = 0;
  EXPECT_THROW(wait_for_root_error(deadline_after(std::chrono::hours(1)),
                                   [&] {
                                     if (++checks == 3) throw std::runtime_error("the cause");
                                   }),
               std::runtime_error);
  EXPECT_EQ(checks, 3);
}

TEST(WaitForRootError, ReturnsAtTheDeadline) {
  const Deadline end = deadline_after(std::chrono::milliseconds(30));
  int checks = 0;
  wait_for_root_error(end, [&] { ++checks; });
  EXPECT_TRUE(has_passed(end));
  EXPECT_GE(checks, 1);
}

// The cause may be known already, however late it is.
TEST(WaitForRootError, ChecksOnceThoughTheDeadlineHasPassed) {
  int checks = 0;
  wait_for_root_error(Deadline::min(), [&] { ++checks; });
  EXPECT_EQ(checks, 1);
}

}  // namespace
}  // namespace dlaunch::internal
