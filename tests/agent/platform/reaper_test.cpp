#include "agent/platform/reaper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace dlaunch::agent {
namespace {

bool contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// Runs `test` in a process that is a subreaper without other children; true: it returned true.
template <class Test>
bool in_subreaper(Test&& test) {
  const pid_t child = fork();
  if (child == 0) {
    become_subreaper();
    const bool passed = test();
    kill_and_reap_all(std::chrono::seconds(60));
    _exit(passed ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

// An orphan with a session of its own; its pid, once its parent has ended and been reaped.
pid_t start_orphan() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const pid_t parent = fork();
  if (parent == 0) {
    setsid();
    if (fork() > 0) _exit(0);
    const pid_t own = getpid();
    if (write(ends[1], &own, sizeof own) != sizeof own) _exit(1);
    while (true) pause();
  }
  close(ends[1]);
  pid_t orphan = -1;
  if (read(ends[0], &orphan, sizeof orphan) != sizeof orphan) orphan = -1;
  close(ends[0]);
  waitpid(parent, nullptr, 0);
  return orphan;
}

TEST(Reaper, AnOrphanBecomesAChildOfTheSubreaper) {
  EXPECT_TRUE(in_subreaper([] {
    const pid_t orphan = start_orphan();
    return contains(children_of(getpid()), orphan) && contains(descendants_of(getpid()), orphan) &&
           contains(all_processes(), orphan);
  }));
}

TEST(Reaper, KillsAllDescendantsAndReapsThem) {
  EXPECT_TRUE(in_subreaper([] {
    const pid_t orphan = start_orphan();
    const bool none_left = kill_and_reap_all(std::chrono::seconds(60)).empty();
    return none_left && !birth_of(orphan) && children_of(getpid()).empty();
  }));
}

TEST(Reaper, SparesAProcess) {
  EXPECT_TRUE(in_subreaper([] {
    const pid_t spared = start_orphan();
    const pid_t other = start_orphan();
    if (kill_descendants({spared}) != 1) return false;
    return waitpid(-1, nullptr, 0) == other && birth_of(spared).has_value();
  }));
}

TEST(Reaper, ReapsOnlyWhatHasEnded) {
  EXPECT_TRUE(in_subreaper([] {
    const pid_t lives = start_orphan();
    const pid_t ends = fork();
    if (ends == 0) _exit(0);
    siginfo_t ended{};
    waitid(P_PID, static_cast<id_t>(ends), &ended, WEXITED | WNOWAIT);
    if (birth_of(ends) || !explain_process(ends).empty()) return false;  // a zombie
    reap_all_ended();
    return children_of(getpid()) == std::vector<pid_t>{lives};
  }));
}

TEST(Reaper, NamesAProcess) {
  char before[16] = "";
  prctl(PR_GET_NAME, before, 0, 0, 0);
  prctl(PR_SET_NAME, "a (b) c", 0, 0, 0);
  EXPECT_EQ(name_process(getpid()), std::to_string(getpid()) + " (a (b) c)");
  EXPECT_TRUE(explain_process(getpid()).starts_with(std::to_string(getpid()) + " (a (b) c; state R"));
  EXPECT_TRUE(birth_of(getpid()));
  prctl(PR_SET_NAME, before, 0, 0, 0);
}

}  // namespace
}  // namespace dlaunch::agent
