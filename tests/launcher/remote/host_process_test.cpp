#include "launcher/remote/host_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace dlaunch::launcher {
namespace {

class HostProcessTest : public testing::Test {
 protected:
  ~HostProcessTest() override {
    for (const int fd : {process_.input, process_.outputs[0].fd, process_.outputs[1].fd}) {
      if (fd >= 0) close(fd);
    }
    if (process_.pid > 0) waitpid(process_.pid, nullptr, 0);
  }
  // All that it writes to this stream.
  std::string read_all(Stream stream) {
    const int fd = process_.outputs.at(static_cast<std::size_t>(stream)).fd;
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
  HostProcess process_{"KEY"};
};

TEST_F(HostProcessTest, HasThreePipes) {
  ASSERT_TRUE(spawn({"sh", "-c", "read word; echo out $word; echo err >&2"}, process_).ok());
  EXPECT_GT(process_.pid, 0);
  EXPECT_EQ(write(process_.input, "in\n", 3), 3);
  EXPECT_EQ(read_all(Stream::out), "out in\n");
  EXPECT_EQ(read_all(Stream::err), "err\n");
  for (const int fd : {process_.input, process_.outputs[0].fd, process_.outputs[1].fd}) {
    EXPECT_NE(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST_F(HostProcessTest, LeadsASessionAndHasTheDefaultActionOfAPipesEnd) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // as dlaunch does
  ASSERT_TRUE(spawn({"sh", "-c",
                     "read -r pid name state parent group session rest < /proc/$$/stat; echo $session; kill "
                     "-PIPE $$; echo alive"},
                    process_)
                  .ok());
  std::signal(SIGPIPE, before);
  const std::string pid = std::to_string(process_.pid);
  EXPECT_EQ(read_all(Stream::out), pid + "\n");
}

TEST_F(HostProcessTest, ACommandThatCannotBeRunLeavesNothingOpen) {
  const int next = dup(STDIN_FILENO);
  close(next);
  const auto spawned = spawn({"./no-such-program"}, process_);
  ASSERT_FALSE(spawned.ok());
  EXPECT_EQ(spawned.error().message(), "cannot run ./no-such-program: No such file or directory");
  EXPECT_EQ(process_.pid, 0);
  EXPECT_EQ(process_.input, -1);
  const int now = dup(STDIN_FILENO);
  EXPECT_EQ(now, next);
  close(now);
}

}  // namespace
}  // namespace dlaunch::launcher
