// Workers that a session's leader makes are in that session, and children of the process that asked for them.

#include "agent/process/worker_session.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>

#include "agent/process/worker_start.h"

namespace dlaunch::agent {
namespace {

class WorkerSessionTest : public testing::Test {
 protected:
  WorkerSessionTest() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~WorkerSessionTest() override {
    for (const int end : ends_) close(end);
  }
  // A worker that waits to be killed. It is in the session, or in one of its own.
  void start(WorkerSession* session) {
    WorkerStart start;
    start.argv = {"sleep", "1000"};
    start.out = start.err = ends_[1];
    worker_ = std::make_unique<StartingWorker>(std::move(start), inherited_, session);
    ASSERT_GT(worker_->pid(), 0) << worker_->error();
    EXPECT_EQ(waitpid(worker_->pid(), nullptr, WNOHANG), 0) << "a child of this process";
  }
  // The worker has its session from before its exec on: its memory shows when that was.
  void await_exec() {
    std::string name;
    do {
      const std::string path = "/proc/" + std::to_string(worker_->pid()) + "/comm";
      const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      ASSERT_GE(file, 0);
      std::array<char, 16> text{};
      const ssize_t got = read(file, text.data(), text.size());
      close(file);
      name.assign(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
    } while (name != "sleep\n");
  }
  void end() {
    const pid_t pid = worker_->pid();
    EXPECT_EQ(kill(-pid, SIGTERM), 0) << "it leads a process group";
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, SIGTERM);
  }
  static void await_end_of(pid_t leader) {
    siginfo_t ended{};
    EXPECT_EQ(waitid(P_PID, static_cast<id_t>(leader), &ended, WEXITED | WNOWAIT), 0);
  }

  Inherited inherited_;
  std::array<int, 2> ends_{-1, -1};
  std::unique_ptr<StartingWorker> worker_;
};

TEST_F(WorkerSessionTest, AllAreInOneSessionAndChildrenOfThisProcess) {
  WorkerSession session(3);
  ASSERT_GT(session.leader(), 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(session.is_complete());
    start(&session);
    await_exec();
    EXPECT_EQ(getsid(worker_->pid()), session.leader());
    EXPECT_EQ(getpgid(worker_->pid()), worker_->pid());
    end();
  }
  EXPECT_TRUE(session.is_complete());
}

TEST_F(WorkerSessionTest, TheSessionOutlivesItsLeader) {
  pid_t leader = -1;
  {
    WorkerSession session(1);
    leader = session.leader();
    start(&session);
  }
  await_exec();
  EXPECT_EQ(kill(leader, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(getsid(worker_->pid()), leader);
  end();
  EXPECT_EQ(waitpid(leader, nullptr, WNOHANG), -1) << "it has been reaped";
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(WorkerSessionTest, AfterTheLeadersEndAWorkerFoundsItsOwnSession) {
  for (const bool is_reaped : {false, true}) {
    WorkerSession session(2);
    kill(session.leader(), SIGKILL);
    await_end_of(session.leader());
    if (is_reaped) {
      EXPECT_EQ(waitpid(session.leader(), nullptr, 0), session.leader());
    }
    start(&session);
    await_exec();
    EXPECT_EQ(getsid(worker_->pid()), worker_->pid());
    end();
    EXPECT_EQ(waitpid(session.leader(), nullptr, WNOHANG), is_reaped ? -1 : session.leader());
  }
}

TEST_F(WorkerSessionTest, AStoppedLeaderIsDoneWithout) {
  WorkerSession session(1);
  const pid_t leader = session.leader();
  kill(leader, SIGSTOP);
  siginfo_t stopped{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(leader), &stopped, WSTOPPED), 0);
  start(&session);
  await_exec();
  EXPECT_EQ(getsid(worker_->pid()), worker_->pid());
  EXPECT_EQ(kill(leader, 0), -1) << "it has ended";
  end();
}

TEST_F(WorkerSessionTest, AWorkerThatCannotBeRunReportsWhy) {
  WorkerSession session(1);
  WorkerStart start;
  start.argv = {"./no-such-program"};
  start.out = start.err = ends_[1];
  const StartingWorker worker(std::move(start), inherited_, &session);
  EXPECT_EQ(waitpid(worker.pid(), nullptr, 0), worker.pid());
  EXPECT_EQ(worker.error(), ENOENT);
}

}  // namespace
}  // namespace dlaunch::agent
