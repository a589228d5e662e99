#include "agent/process/guard_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "agent/process/keeper.h"

namespace dlaunch::agent {
namespace {

// An agent that ends while its keeper is stopped.
[[noreturn]] void end_with_a_stopped_keeper() {
  char name[64] = "guard_test";
  const auto keeper = start_keeper(name, sizeof name, {}, nullptr, std::chrono::milliseconds(1));
  Frame ready;
  if (!keeper || read(keeper->socket, &ready, sizeof ready) != sizeof ready) _exit(1);
  _exit(kill(static_cast<pid_t>(ready.number), SIGSTOP) == 0 ? 0 : 2);
}

TEST(GuardProcess, KillsAStoppedKeeperAfterItsTimeout) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t agent = fork();
  if (agent == 0) end_with_a_stopped_keeper();
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(agent, &status, 0), agent);
  EXPECT_EQ(status, 0);
  pollfd held{ends[0], POLLIN, 0};  // by guard and keeper, which inherit it from the agent
  EXPECT_EQ(poll(&held, 1, 60'000), 1) << "the keeper or its guard still runs";
  close(ends[0]);
}

}  // namespace
}  // namespace dlaunch::agent
