#include "runtime/shared_memory/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace dlaunch::internal {
namespace {

// Each time the kernel may move the thread back before it looks.
TEST(Processors, AThreadLeavesTheOneThatIsNamed) {
  if (usable_processors() < 2) GTEST_SKIP() << "this machine has one processor";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  bool has_left = false;
  for (int i = 0; i < 1000 && !has_left; ++i) {
    const std::uint32_t here = current_processor();
    leave_processor(here);
    has_left = current_processor() != here;
  }
  EXPECT_TRUE(has_left);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(Processors, AThreadThatMayUseOnlyOneStays) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const std::uint32_t here = current_processor();
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(here - 1, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_processors(), 1U);
  leave_processor(here);
  EXPECT_EQ(current_processor(), here);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// Also one whose process may use only that processor.
TEST(Processors, AThreadAvoidsTheOneThatIsNamed) {
  if (usable_processors() < 2) GTEST_SKIP() << "this machine has one processor";
  std::thread([] {
    const std::uint32_t here = current_processor();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(here - 1, &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    avoid_processor(here);
    for (int i = 0; i < 100; ++i) {
      EXPECT_NE(current_processor(), here);
      std::this_thread::yield();
    }
  }).join();
}

// Linux groups threads by session, if it does.
TEST(Processors, TheSchedulingGroupOfAnotherSessionIsAnother) {
  const std::uint32_t ours = scheduling_group();
  EXPECT_NE(ours, 0U);
  int enabled = 0;
  std::ifstream("/proc/sys/kernel/sched_autogroup_enabled") >> enabled;
  for (const bool new_session : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      if (new_session) setsid();
      _exit(scheduling_group() == ours ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), new_session && enabled != 0 ? 0 : 1);
  }
}

TEST(Processors, OneThatIsNotKnownIsNotLeft) {
  leave_processor(0);
  leave_processor(~std::uint32_t{0});
}

}  // namespace
}  // namespace dlaunch::internal
