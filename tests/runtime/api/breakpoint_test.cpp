// How a process waits for a debugger. (A debugger that comes: spawn_test.cpp.)

#include "runtime/api/breakpoint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

namespace dlaunch::internal {
namespace {

TEST(Breakpoint, ShowsHowToAttachADebugger) {
  testing::internal::CaptureStderr();
  announce_wait("rank 3");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[dlaunch] rank 3 waits for a debugger: gdb -p " +
                                                        std::to_string(getpid()) +
                                                        "   (then: continue, twice)\n");
}

// The loss of another rank ends the wait, which has no deadline.
TEST(Breakpoint, AFailedCheckEndsTheWait) {
  int checks = 0;
  EXPECT_THROW(await_debugger([&] {
                 if (++checks == 2) throw std::runtime_error("a rank is lost");
               }),
               std::runtime_error);
  EXPECT_EQ(checks, 2);
}

}  // namespace
}  // namespace dlaunch::internal
