// A real keeper, and this test as its agent at the other end of the socket.

#include "agent/process/keeper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "agent/platform/reaper.h"
#include "agent/process/passed_descriptors.h"

namespace dlaunch::agent {
namespace {

class KeeperProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    null_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
    auto keeper = start_keeper(name_.data(), name_.size(), {});
    ASSERT_TRUE(keeper.ok());
    keeper_ = *keeper;
    const timeval limit{60, 0};
    setsockopt(keeper_.socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(next().kind, FrameKind::ready);
  }
  void TearDown() override {
    close_agents_ends();
    if (keeper_.child > 0) {
      EXPECT_EQ(waitpid(keeper_.child, nullptr, 0), keeper_.child);
    }
    close(null_);
  }
  void close_agents_ends() {
    for (int* end : {&keeper_.socket, &keeper_.guards_life}) {
      if (*end >= 0) close(std::exchange(*end, -1));
    }
  }

  void send(const Frame& frame, const std::string& body = "") {
    const std::string bytes = std::string(reinterpret_cast<const char*>(&frame), sizeof frame) + body;
    EXPECT_EQ(write(keeper_.socket, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void send(FrameKind kind, std::int64_t number = 0) { send({kind, 0, 0, 0, number, 0}); }
  void spawn(std::uint32_t local_rank, const std::vector<std::string>& argv, std::int64_t session_size = 0) {
    const std::array<std::uint32_t, 4> counts{static_cast<std::uint32_t>(argv.size()), 0, 0, 0};
    std::string body(reinterpret_cast<const char*>(counts.data()), sizeof counts);
    for (const std::string& word : argv) body.append(word).push_back('\0');
    Frame frame{FrameKind::spawn, static_cast<std::uint32_t>(body.size()), 5, local_rank, session_size, 0};
    iovec part{&frame, sizeof frame};
    msghdr header{};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    PassedDescriptors<2> descriptors;
    descriptors.send_with(header, {null_, null_});
    EXPECT_EQ(sendmsg(keeper_.socket, &header, 0), static_cast<ssize_t>(sizeof frame));
    EXPECT_EQ(write(keeper_.socket, body.data(), body.size()), static_cast<ssize_t>(body.size()));
  }
  // The keeper's next report.
  Frame next() {
    Frame frame;
    if (recv(keeper_.socket, &frame, sizeof frame, MSG_WAITALL) != static_cast<ssize_t>(sizeof frame))
      return {};
    body_.resize(frame.length);
    if (frame.length > 0) {
      EXPECT_EQ(recv(keeper_.socket, body_.data(), body_.size(), MSG_WAITALL),
                static_cast<ssize_t>(body_.size()));
    }
    return frame;
  }
  pid_t await_started(std::uint32_t local_rank) {
    const Frame frame = next();
    EXPECT_EQ(frame.kind, FrameKind::started);
    EXPECT_EQ(frame.round, 5U);
    EXPECT_EQ(frame.local_rank, local_rank);
    return static_cast<pid_t>(frame.number);
  }
  void await_end_by(pid_t pid, int signo) {
    const Frame frame = next();
    EXPECT_EQ(frame.kind, FrameKind::exited);
    EXPECT_EQ(frame.pid, pid);
    EXPECT_EQ(frame.number & 0x7f, signo) << "a wait status";
  }

  std::array<char, 64> name_{"keeper_process_test"};
  Keeper keeper_;
  int null_ = -1;
  std::string body_;  // of the last report
};

TEST_F(KeeperProcessTest, ReportsAWorkersStartAndEndAndThatAllAreGone) {
  spawn(2, {"sh", "-c", "exit 3"});
  const pid_t pid = await_started(2);
  EXPECT_GT(pid, 0);
  const Frame exited = next();
  EXPECT_EQ(exited.kind, FrameKind::exited);
  EXPECT_EQ(exited.local_rank, 2U);
  EXPECT_EQ(exited.pid, pid);
  EXPECT_EQ(exited.number, 3 << 8) << "a wait status";
  EXPECT_EQ(next().kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, ReportsAProgramThatCannotBeRun) {
  spawn(0, {"./no-such-program"});
  const Frame failed = next();
  EXPECT_EQ(failed.kind, FrameKind::spawn_failed);
  EXPECT_EQ(failed.round, 5U);
  EXPECT_EQ(failed.number, ENOENT);
  EXPECT_EQ(body_, "") << "exec failed, and no step before it";
  EXPECT_EQ(next().kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, WorkersOfACrowdedNodeShareASession) {
  spawn(0, {"sh", "-c", "exit 0"}, 3);
  const pid_t first = await_started(0);
  EXPECT_EQ(next().pid, first) << "it has ended, and others are to come";
  spawn(1, {"sleep", "1000"}, 3);
  const pid_t second = await_started(1);
  spawn(2, {"sleep", "1000"}, 3);
  const pid_t third = await_started(2);
  EXPECT_EQ(getsid(second), getsid(third));
  for (const pid_t pid : {second, third}) {
    EXPECT_NE(getsid(pid), pid);
    EXPECT_EQ(kill(-pid, SIGTERM), 0) << "it leads a process group";
    await_end_by(pid, SIGTERM);
  }
  EXPECT_EQ(next().kind, FrameKind::all_gone) << "the session's leader, too";
}

TEST_F(KeeperProcessTest, EndsARoundOfWhichWorkersWereToCome) {
  spawn(0, {"sleep", "1000"}, 2);
  const pid_t pid = await_started(0);
  send(FrameKind::kill_all);
  await_end_by(pid, SIGKILL);
  EXPECT_EQ(next().kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, SignalsAllWorkersAlsoASuspendedOne) {
  spawn(0, {"sleep", "1000"});
  const pid_t pid = await_started(0);
  send(FrameKind::suspend);
  send(FrameKind::signal_all, SIGTERM);
  await_end_by(pid, SIGTERM);
  EXPECT_EQ(next().kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, KillsTheWorkersWhenTheLeaseHasEnded) {
  send(FrameKind::keep_alive, boot_time_ms() + 3600 * 1000);
  spawn(0, {"sleep", "1000"});
  const pid_t pid = await_started(0);
  send(FrameKind::keep_alive, boot_time_ms() - 1);  // the agent has not run since
  await_end_by(pid, SIGKILL);
  EXPECT_EQ(next().kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, ReportsAndKillsWhatAWorkerLeaves) {
  spawn(0, {"sh", "-c", "setsid sleep 1000 & exit 0"});
  await_end_by(await_started(0), 0);
  const Frame left = next();
  EXPECT_EQ(left.kind, FrameKind::leftovers);
  EXPECT_EQ(left.number, 1);
  EXPECT_FALSE(body_.empty()) << "an example";
  send(FrameKind::kill_all);
  Frame frame = next();
  while (frame.kind == FrameKind::leftovers) frame = next();
  EXPECT_EQ(frame.kind, FrameKind::all_gone);
}

TEST_F(KeeperProcessTest, LeavesByItselfAfterSuccess) {
  spawn(0, {"true"});
  send(FrameKind::leave_after_success);
  await_end_by(await_started(0), 0);
  EXPECT_EQ(next().kind, FrameKind::all_gone);
  char byte = 0;
  EXPECT_EQ(recv(keeper_.socket, &byte, 1, 0), 0) << "it has not ended";
}

TEST_F(KeeperProcessTest, EndsAllWhenTheAgentHasEnded) {
  spawn(0, {"sleep", "1000"});
  const pid_t pid = await_started(0);
  EXPECT_TRUE(birth_of(pid));
  close_agents_ends();
  const pid_t child = std::exchange(keeper_.child, -1);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(birth_of(pid));
}

}  // namespace
}  // namespace dlaunch::agent
