#include "agent/process/worker_start.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "tests/store/client/temporary_folder.h"

namespace dlaunch::agent {
namespace {

class WorkerStartTest : public testing::Test {
 protected:
  // Starts a worker and waits for its end; returns what it wrote.
  std::string run(std::vector<const char*> argv, WorkerStart start = {}) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    start.argv = std::move(argv);
    start.out = start.err = ends[1];
    const StartingWorker worker(std::move(start), inherited_);
    pid_ = worker.pid();
    close(ends[1]);
    std::string text;
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = read(ends[0], piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(got));
    close(ends[0]);
    EXPECT_EQ(waitpid(pid_, &status_, 0), pid_);
    error_ = worker.error();
    what_ = worker.what();
    return text;
  }
  // The signals that a worker ignores or blocks.
  std::uint64_t mask(const char* name) {
    std::istringstream line(run({"grep", name, "/proc/self/status"}));
    std::string skip;
    std::uint64_t bits = 0;
    line >> skip >> std::hex >> bits;
    EXPECT_EQ(skip, std::string(name) + ":");
    return bits;
  }
  static std::uint64_t bit(int signo) { return std::uint64_t{1} << static_cast<unsigned>(signo - 1); }

  Inherited inherited_;
  pid_t pid_ = -1;
  int status_ = -1;
  int error_ = -1;
  std::string what_;
};

TEST_F(WorkerStartTest, AWorkerLeadsASessionOfItsOwn) {
  std::istringstream said(run({"sh", "-c",
                               "read -r pid name state parent group session rest < /proc/$$/stat; "
                               "echo $pid $parent $session"}));
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
  said >> pid >> parent >> session;
  EXPECT_EQ(pid, pid_);
  EXPECT_EQ(parent, getpid());
  EXPECT_EQ(session, pid_);
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(error_, 0);
}

TEST_F(WorkerStartTest, IgnoresASignalOnlyIfTheCallerOfDlaunchDid) {
  const auto before = std::signal(SIGHUP, SIG_IGN);  // as the keeper does
  EXPECT_EQ(mask("SigIgn") & bit(SIGHUP), 0U);
  inherited_.ignored.at(SIGHUP) = true;
  EXPECT_EQ(mask("SigIgn") & bit(SIGHUP), bit(SIGHUP));
  std::signal(SIGHUP, before);
}

TEST_F(WorkerStartTest, NoSignalIsBlocked) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  EXPECT_EQ(mask("SigBlk"), 0U);
  sigprocmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(WorkerStartTest, ItsVariablesAreSetOnTopOfThisProcesss) {
  setenv("DLAUNCH_TEST_KEPT", "kept", 1);
  setenv("DLAUNCH_TEST_CHANGED", "old", 1);
  WorkerStart start;
  start.environment = {{"DLAUNCH_TEST_CHANGED", "new"}, {"DLAUNCH_TEST_ADDED", "a=b"}};
  EXPECT_EQ(run({"sh", "-c", "echo $DLAUNCH_TEST_KEPT $DLAUNCH_TEST_CHANGED $DLAUNCH_TEST_ADDED"}, start),
            "kept new a=b\n");
  unsetenv("DLAUNCH_TEST_KEPT");
  unsetenv("DLAUNCH_TEST_CHANGED");
}

TEST_F(WorkerStartTest, TheStepThatFailedIsNamed) {
  EXPECT_EQ(run({"./no-such-program"}), "");
  EXPECT_EQ(error_, ENOENT);
  EXPECT_EQ(what_, "");
  const test::TemporaryFolder folder;
  run({folder.path().c_str()});
  EXPECT_EQ(error_, EACCES) << "a folder is no program";
  WorkerStart start;
  start.cpus = {60'000};
  run({"true"}, start);
  EXPECT_EQ(error_, EINVAL);
  EXPECT_EQ(what_, "cannot bind it to its CPUs: ");
}

// The keeper dies: its workers do not survive it.
TEST_F(WorkerStartTest, AWorkerDiesWithItsParent) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const pid_t keeper = fork();
  if (keeper == 0) {
    WorkerStart start;
    start.argv = {"sh", "-c", "echo began; exec sleep 1000"};
    start.out = start.err = ends[1];
    const StartingWorker worker(std::move(start), inherited_);
    close(ends[1]);
    std::array<char, 6> began{};
    const bool well = worker.pid() > 0 && read(ends[0], began.data(), began.size()) == 6;
    _exit(well ? 0 : 1);
  }
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(keeper, &status, 0), keeper);
  EXPECT_EQ(status, 0);
  pollfd held{ends[0], POLLIN, 0};  // by the worker
  EXPECT_EQ(poll(&held, 1, 60'000), 1) << "the worker still runs";
  EXPECT_NE(held.revents & POLLHUP, 0);
  close(ends[0]);
}

}  // namespace
}  // namespace dlaunch::agent
