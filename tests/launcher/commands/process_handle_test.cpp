#include "launcher/commands/process_handle.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "tests/launcher/commands/waiting_child.h"

namespace dlaunch::launcher {
namespace {

TEST(ProcessHandle, SignalsAProcessAndSeesItsEnd) {
  WaitingChild child;
  const ProcessHandle handle(child.pid());
  ASSERT_TRUE(handle.found());
  EXPECT_FALSE(handle.ended_within(Duration(0)));
  EXPECT_TRUE(handle.signal(0));
  EXPECT_TRUE(handle.signal(SIGTERM));
  EXPECT_TRUE(handle.ended_within(std::chrono::seconds(60)));
  EXPECT_EQ(child.reap(), SIGTERM);
}

TEST(ProcessHandle, RefersToNoOtherProcessAfterwards) {
  WaitingChild child;
  const ProcessHandle handle(child.pid());
  kill(child.pid(), SIGKILL);
  child.reap();
  EXPECT_TRUE(handle.ended_within(Duration(0)));
  errno = 0;
  EXPECT_FALSE(handle.signal(SIGTERM));
  EXPECT_EQ(errno, ESRCH);
}

TEST(ProcessHandle, AMissingProcessIsNotFound) {
  constexpr std::int64_t above_all_pids = 1 << 23;  // the kernel's limit is 1 << 22
  EXPECT_FALSE(ProcessHandle(above_all_pids).found());
  EXPECT_FALSE(ProcessHandle(-1).found());
}

TEST(ProcessHandle, TheLongestWaitEndsWithTheProcess) {
  WaitingChild child;
  const ProcessHandle handle(child.pid());
  kill(child.pid(), SIGKILL);
  EXPECT_TRUE(handle.ended_within(Duration::max())) << "poll() takes fewer milliseconds";
}

}  // namespace
}  // namespace dlaunch::launcher
