#include "agent/observe/cpu_time.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace dlaunch::agent {
namespace {

using std::chrono::milliseconds;

// Until this process has used so much.
void burn(milliseconds time) {
  timespec used{};
  do {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec) < time);
}

pid_t forked(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  return child;
}

void wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

TEST(CpuTime, IsThatOfAProcessAndItsChildrenRunningAndEnded) {
  const pid_t family = forked([] {
    burn(milliseconds(100));
    wait_for(forked([] { burn(milliseconds(100)); }));
    forked([] {
      burn(milliseconds(100));
      raise(SIGSTOP);
      _exit(0);
    });
    siginfo_t stopped{};
    waitid(P_ALL, 0, &stopped, WSTOPPED | WNOWAIT);
    raise(SIGSTOP);
    kill(stopped.si_pid, SIGKILL);
    _exit(0);
  });
  ASSERT_GT(family, 0);
  int status = 0;
  ASSERT_EQ(waitpid(family, &status, WUNTRACED), family);
  const Duration used = cpu_time_of_tree(family);
  kill(family, SIGCONT);
  wait_for(family);
  EXPECT_GE(used, milliseconds(240))
      << "three times a tenth of a second; user and system time are cut to ticks";
  EXPECT_EQ(cpu_time_of_tree(family), Duration(0)) << "it has ended";
}

}  // namespace
}  // namespace dlaunch::agent
