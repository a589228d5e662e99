#include "agent/process/job_mark.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/platform/reaper.h"

namespace dlaunch::agent {
namespace {

// A process that only its mark connects with the job: its parent, session and environment are gone.
pid_t start_stray(JobMark mark) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    carry(mark);
    if (fork() > 0) _exit(0);  // its parent
    setsid();
    const pid_t own = getpid();
    if (write(ends[1], &own, sizeof own) != sizeof own) _exit(1);
    char* const no_environment[] = {nullptr};
    execle("/bin/sleep", "sleep", "1000", nullptr, no_environment);
    _exit(1);
  }
  close(ends[1]);
  pid_t stray = 0;
  EXPECT_EQ(read(ends[0], &stray, sizeof stray), static_cast<ssize_t>(sizeof stray));
  close(ends[0]);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  return stray;
}

TEST(JobMark, FindsProcessesByTheMarkAlone) {
  const JobMark mark = make_job_mark();
  if (mark == no_job_mark) GTEST_SKIP() << "limits on file locks cannot be set here";
  const JobMark other = make_job_mark();
  ASSERT_NE(mark, other);
  const pid_t ours = start_stray(mark);
  const pid_t other_process = start_stray(other);
  EXPECT_EQ(kill_marked_processes(no_job_mark), std::vector<pid_t>{});
  EXPECT_EQ(kill_marked_processes(mark, ours), std::vector<pid_t>{}) << "it is spared";
  EXPECT_EQ(kill_marked_processes(mark), std::vector<pid_t>{ours});
  while (birth_of(ours)) poll(nullptr, 0, 1);
  EXPECT_EQ(kill_marked_processes(mark), std::vector<pid_t>{}) << "it has ended";
  EXPECT_TRUE(birth_of(other_process));
  EXPECT_EQ(kill_marked_processes(other), std::vector<pid_t>{other_process});
}

TEST(JobMark, AJobInsideAJobKeepsTheOuterMark) {
  const pid_t child = fork();
  if (child == 0) {
    carry(make_job_mark());
    _exit(make_job_mark() == no_job_mark ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace dlaunch::agent
