#include "agent/process/pending_execs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace dlaunch::agent {
namespace {

class PendingExecsTest : public testing::Test {
 protected:
  PendingExecsTest() : null_(open("/dev/null", O_RDWR | O_CLOEXEC)) {}
  ~PendingExecsTest() override {
    for (const pid_t pid : running_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    close(null_);
  }
  pid_t begin(std::vector<const char*> argv) {
    WorkerStart start;
    start.argv = std::move(argv);
    start.out = start.err = null_;
    PendingExecs::Failure failure;
    const pid_t pid = execs_.begin(std::move(start), inherited_, failure);
    EXPECT_GT(pid, 0) << failure.what << failure.error;
    running_.push_back(pid);
    return pid;
  }
  void reap(pid_t pid) {
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    std::erase(running_, pid);
  }
  [[nodiscard]] bool becomes_readable() const {
    pollfd done{execs_.descriptor(), POLLIN, 0};
    return poll(&done, 1, 60'000) == 1;
  }

  int null_;
  Inherited inherited_;
  PendingExecs execs_;
  std::vector<pid_t> running_;
};

TEST_F(PendingExecsTest, ReportsABatchOnceAllOfItHasCalledExec) {
  EXPECT_EQ(execs_.descriptor(), -1);
  const pid_t first = begin({"sleep", "1000"});
  const pid_t second = begin({"sleep", "1000"});
  EXPECT_TRUE(execs_.batch_is_open());
  EXPECT_EQ(execs_.take_started(), std::vector<pid_t>{}) << "the batch is open";
  execs_.close_batch();
  ASSERT_TRUE(becomes_readable());
  EXPECT_EQ(execs_.take_started(), (std::vector<pid_t>{first, second}));
  EXPECT_EQ(execs_.take_started(), std::vector<pid_t>{}) << "once";
  EXPECT_EQ(execs_.descriptor(), -1);
  kill(first, SIGKILL);
  reap(first);
  EXPECT_FALSE(execs_.take_ended(first)) << "its start was reported before";
}

TEST_F(PendingExecsTest, ReportsAFailureWithTheEnd) {
  const pid_t missing = begin({"./no-such-program"});
  const pid_t works = begin({"sleep", "1000"});
  execs_.await(60'000);
  EXPECT_EQ(execs_.take_started(), std::vector<pid_t>{works});
  reap(missing);
  const auto failure = execs_.take_ended(missing);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->error, ENOENT);
  EXPECT_EQ(failure->what, "");
}

TEST_F(PendingExecsTest, AProgramThatEndsEarlyHasCalledExec) {
  const pid_t quick = begin({"true"});
  reap(quick);
  const auto failure = execs_.take_ended(quick);
  ASSERT_TRUE(failure) << "take_started() has not returned it";
  EXPECT_EQ(failure->error, 0);
  execs_.close_batch();
  EXPECT_EQ(execs_.take_started(), std::vector<pid_t>{}) << "it is not reported twice";
}

TEST_F(PendingExecsTest, BatchesAreReportedApart) {
  const pid_t first = begin({"sleep", "1000"});
  execs_.close_batch();
  begin({"sleep", "1000"});
  ASSERT_TRUE(becomes_readable());
  EXPECT_EQ(execs_.take_started(), std::vector<pid_t>{first});
  EXPECT_TRUE(execs_.batch_is_open());
}

}  // namespace
}  // namespace dlaunch::agent
