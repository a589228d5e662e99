#include "agent/process/clone_into_cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "agent/process/job_cgroup.h"
#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

struct Child {
  int in = -1;   // it runs until this end of a pipe ends
  int code = 0;  // and returns this code
};

int run_child(void* argument) {
  const auto& child = *static_cast<const Child*>(argument);
  char byte = 0;
  while (read(child.in, &byte, 1) < 0 && errno == EINTR) {
  }
  _exit(child.code);
}

// `cgroup`: as make_job_cgroup() makes it; skips the test if there can be none.
class CloneIntoCgroup : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_job_cgroup(getpid());
    if (!made) GTEST_SKIP() << made.error().message();
    cgroup_ = *made;
    ASSERT_EQ(pipe2(pipe_.data(), O_CLOEXEC), 0);
  }
  void TearDown() override {
    remove_job_cgroup(cgroup_);
    for (const int fd : {cgroup_.fd, pipe_[0]}) {
      if (fd >= 0) close(fd);
    }
  }
  JobCgroup cgroup_;
  std::array<int, 2> pipe_{-1, -1};
  alignas(16) std::array<char, 64 * 1024> stack_{};
};

TEST_F(CloneIntoCgroup, TheChildBeginsInIt) {
  Child child{pipe_[0], 7};
  const pid_t pid = clone_into_cgroup(cgroup_.fd, 0, run_child, &child, stack_.data(), stack_.size());
  ASSERT_GT(pid, 0) << errno;
  std::ifstream procs(cgroup_.path + "/cgroup.procs");
  std::string first;
  std::getline(procs, first);
  EXPECT_EQ(first, std::to_string(pid));
  close(pipe_[1]);
  // The child's copy of this end keeps the pipe open: it is killed.
  kill_job_cgroup(cgroup_);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_F(CloneIntoCgroup, TheChildGetsItsArgumentAndSharesWhatTheFlagsName) {
  Child child{pipe_[0], 7};
  const pid_t pid =
      clone_into_cgroup(cgroup_.fd, CLONE_VM | CLONE_FILES, run_child, &child, stack_.data(), stack_.size());
  ASSERT_GT(pid, 0) << errno;
  child.code = 9;   // in the memory of both
  close(pipe_[1]);  // of both
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 9 << 8);
}

TEST(CloneIntoNoCgroup, AnotherDirectoryIsAnError) {
  const test::TemporaryFolder folder;
  const int fd = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  Child child;
  alignas(16) std::array<char, 16 * 1024> stack{};
  errno = 0;
  EXPECT_EQ(clone_into_cgroup(fd, 0, run_child, &child, stack.data(), stack.size()), -1);
  EXPECT_NE(errno, 0);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was made";
  close(fd);
}

}  // namespace
}  // namespace dlaunch::agent
