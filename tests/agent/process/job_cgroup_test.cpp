// The job's cgroup: what its functions do to any directory, and, if the kernel grants one here, what they do
// to processes.
#include "agent/process/job_cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

namespace fs = std::filesystem;

// A directory in the place of a cgroup. Nothing in it is a process.
class CgroupFolderTest : public testing::Test {
 protected:
  CgroupFolderTest() {
    auto made = make_locked_dir(folder_.path());
    EXPECT_TRUE(made.ok());
    if (made) cgroup_ = *made;
  }
  ~CgroupFolderTest() override { close(cgroup_.fd); }

  test::TemporaryFolder folder_;
  JobCgroup cgroup_;
};

TEST_F(CgroupFolderTest, SubCgroupsAreMadeAndRemoved) {
  const int fd = make_sub_cgroup(cgroup_, "workers-1");
  ASSERT_GE(fd, 0);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC) << "workers do not inherit it";
  close(fd);
  EXPECT_TRUE(fs::is_directory(cgroup_.path + "/workers-1"));
  EXPECT_EQ(make_sub_cgroup(cgroup_, "workers-1"), -1) << "it exists";
  fs::create_directories(cgroup_.path + "/workers-1/of/a/worker");
  remove_sub_cgroup(cgroup_, "workers-1");
  EXPECT_FALSE(fs::exists(cgroup_.path + "/workers-1"));
}

TEST_F(CgroupFolderTest, AKillIsOneWrite) {
  std::ofstream(cgroup_.path + "/cgroup.kill");
  kill_job_cgroup(cgroup_);
  std::ostringstream text;
  text << std::ifstream(cgroup_.path + "/cgroup.kill").rdbuf();
  EXPECT_EQ(text.str(), "1");
}

TEST_F(CgroupFolderTest, IsRemovedWithThoseBelow) {
  fs::create_directories(cgroup_.path + "/workers-1/of/a/worker");
  fs::create_directories(cgroup_.path + "/workers-2");
  remove_job_cgroup(cgroup_);
  EXPECT_FALSE(fs::exists(cgroup_.path));
  remove_job_cgroup(cgroup_);
}

TEST(NoCgroup, NothingIsDone) {
  EXPECT_EQ(make_sub_cgroup({}, "workers-1"), -1);
  remove_sub_cgroup({}, "workers-1");
  kill_job_cgroup({});
  remove_job_cgroup({});
}

class JobCgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = make_job_cgroup(getpid());
    if (!made) {
      EXPECT_TRUE(made.error().message().starts_with("cannot make a cgroup")) << made.error().message();
      GTEST_SKIP() << made.error().message();
    }
    cgroup_ = *made;
  }
  void TearDown() override {
    remove_job_cgroup(cgroup_);
    if (cgroup_.exists()) close(cgroup_.fd);
  }
  // A process in the cgroup, which waits for ever.
  static pid_t start_in(const std::string& path) {
    const pid_t pid = fork();
    if (pid == 0) {
      close_range(3, ~0U, 0);  // the locks of the cgroups
      const int procs = open((path + "/cgroup.procs").c_str(), O_WRONLY);
      if (write(procs, "0", 1) != 1) _exit(1);
      while (true) pause();
    }
    while (number_in(path) == 0 && waitpid(pid, nullptr, WNOHANG) == 0) {
    }
    return pid;
  }
  static int number_in(const std::string& path) {
    std::ifstream procs(path + "/cgroup.procs");
    int number = 0;
    for (std::string line; std::getline(procs, line);) ++number;
    return number;
  }
  static int signal_that_killed(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

  JobCgroup cgroup_;
};

TEST_F(JobCgroupTest, LiesInTheOwnCgroupAndNamesTheAgent) {
  const fs::path path(cgroup_.path);
  EXPECT_TRUE(path.filename().string().starts_with("dlaunch-job-" + std::to_string(getpid()) + "-")) << path;
  EXPECT_TRUE(fs::exists(path / "cgroup.kill"));
  EXPECT_TRUE(fs::exists(path.parent_path() / "cgroup.procs"));
}

TEST_F(JobCgroupTest, AKillReachesThoseBelow) {
  const int below = make_sub_cgroup(cgroup_, "workers-1");
  ASSERT_GE(below, 0);
  const pid_t first = start_in(cgroup_.path);
  const pid_t second = start_in(cgroup_.path + "/workers-1");
  kill_job_cgroup(cgroup_);
  EXPECT_EQ(signal_that_killed(first), SIGKILL);
  EXPECT_EQ(signal_that_killed(second), SIGKILL);
  close(below);
}

TEST_F(JobCgroupTest, RemovingItKillsWhatIsInIt) {
  const pid_t pid = start_in(cgroup_.path);
  // Its parent, this process, does not reap it meanwhile: a dead process does not hold the cgroup.
  remove_job_cgroup(cgroup_);
  EXPECT_FALSE(fs::exists(cgroup_.path));
  EXPECT_EQ(signal_that_killed(pid), SIGKILL);
}

TEST_F(JobCgroupTest, OnlyThoseOfDeadJobsAreRemoved) {
  const auto other = make_job_cgroup(getpid());
  ASSERT_TRUE(other.ok());
  const pid_t left = start_in(other->path);
  remove_stale_job_cgroups();
  EXPECT_TRUE(fs::exists(other->path)) << "its job lives";
  EXPECT_EQ(waitpid(left, nullptr, WNOHANG), 0);
  close(other->fd);  // like the end of that job's last process
  remove_stale_job_cgroups();
  EXPECT_FALSE(fs::exists(other->path));
  EXPECT_EQ(signal_that_killed(left), SIGKILL);
  EXPECT_TRUE(fs::exists(cgroup_.path));
}

}  // namespace
}  // namespace dlaunch::agent
