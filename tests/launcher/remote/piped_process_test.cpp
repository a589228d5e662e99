#include "launcher/remote/piped_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

namespace dlaunch::launcher {
namespace {

class PipedProcessTest : public testing::Test {
 protected:
  ~PipedProcessTest() override {
    for (const int fd : {process_.input, process_.outputs[0], process_.outputs[1]}) {
      if (fd >= 0) close(fd);
    }
    if (process_.pid > 0) waitpid(process_.pid, nullptr, 0);
  }
  // All that it writes to this stream.
  static std::string read_all(int fd) {
    std::string text;
    while (true) {
      char piece[256];
      pollfd ready{fd, POLLIN, 0};
      if (poll(&ready, 1, 60'000) != 1) return text + " (silent)";
      const ssize_t got = read(fd, piece, sizeof piece);
      if (got <= 0) return text;
      text.append(piece, static_cast<std::size_t>(got));
    }
  }
  void start(const std::vector<std::string>& command) {
    auto started = run_with_pipes(command);
    ASSERT_TRUE(started.ok());
    process_ = *started;
  }
  PipedProcess process_;
};

TEST_F(PipedProcessTest, HasThreePipes) {
  ASSERT_NO_FATAL_FAILURE(start({"sh", "-c", "read word; echo out $word; echo err >&2"}));
  EXPECT_GT(process_.pid, 0);
  EXPECT_EQ(write(process_.input, "in\n", 3), 3);
  EXPECT_EQ(read_all(process_.outputs[0]), "out in\n");
  EXPECT_EQ(read_all(process_.outputs[1]), "err\n");
  for (const int fd : {process_.input, process_.outputs[0], process_.outputs[1]}) {
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(PipedProcessTest, LeadsASessionAndHasTheDefaultActionOfAPipesEnd) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as dlaunch does
  ASSERT_NO_FATAL_FAILURE(
      start({"sh", "-c",
             "read -r pid name state parent group session rest < /proc/$$/stat; echo $session; kill -PIPE "
             "$$; echo alive"}));
  std::signal(SIGPIPE, before);
  const std::string pid = std::to_string(process_.pid);
  EXPECT_EQ(read_all(process_.outputs[0]), pid + "\n");
}

TEST_F(PipedProcessTest, ACommandThatCannotBeRunLeavesNothingOpen) {
  const int next = dup(STDIN_FILENO);
  close(next);
  const auto started = run_with_pipes({"./no-such-program"});
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().message(), "cannot run ./no-such-program: No such file or directory");
  const int now = dup(STDIN_FILENO);
  EXPECT_EQ(now, next);
  close(now);
}

}  // namespace
}  // namespace dlaunch::launcher
