// The kernel's view of a process.
#include "agent/observe/process_condition.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace dlaunch::agent {
namespace {

TEST(ProcessCondition, RunsIsStoppedAndEnds) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (true) pause();
  }
  EXPECT_EQ(condition_of(child), Condition::runs);
  int status = 0;
  kill(child, SIGSTOP);
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(condition_of(child), Condition::stopped);
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
  EXPECT_EQ(condition_of(child), Condition::runs);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(condition_of(child), Condition::ended) << "a zombie";
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(condition_of(child), Condition::ended) << "none";
}

}  // namespace
}  // namespace dlaunch::agent
