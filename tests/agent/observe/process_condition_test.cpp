// The kernel's view of a process.
#include "agent/observe/process_condition.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>

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
  EXPECT_EQ(state_of(child), "is stopped");
  kill(child, SIGCONT);
  ASSERT_EQ(waitpid(child, &status, WCONTINUED), child);
  EXPECT_EQ(condition_of(child), Condition::runs);
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(condition_of(child), Condition::ended) << "a zombie";
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(condition_of(child), Condition::ended) << "none";
  EXPECT_EQ(state_of(child), "");
}

TEST(ProcessCondition, AProcessThatRunsOrSleepsIsDescribed) {
  EXPECT_EQ(state_of(getpid()), "is running");
  EXPECT_GT(resident_bytes(getpid()), 100'000U);
  EXPECT_EQ(resident_bytes(-1), 0U);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char byte = 0;
    close(ends[1]);
    _exit(static_cast<int>(read(ends[0], &byte, 1)));
  }
  close(ends[0]);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  std::string state;
  while (!state.starts_with("sleeps in the kernel") && std::chrono::steady_clock::now() < deadline)
    state = state_of(child);
  EXPECT_TRUE(state == "sleeps in the kernel" || state.ends_with(")")) << state;
  close(ends[1]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace dlaunch::agent
