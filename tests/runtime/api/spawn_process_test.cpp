// How the processes that spawn() starts end, as their parent sees it. (Whole worlds: spawn_test.cpp.)

#include "runtime/api/spawn_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>

#include "runtime/api/spawn_message.h"

namespace dlaunch::internal {
namespace {

// A process that writes `report` and then does `end`, which must not allocate.
SpawnedProcess started(const std::string& report, const std::function<void()>& end) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  SpawnedProcess process;
  process.rank = 2;
  process.pid = fork();
  if (process.pid == 0) {
    (void)!write(ends[1], report.data(), report.size());
    end();
    _exit(99);
  }
  close(ends[1]);
  process.report = OwnedDescriptor(ends[0]);
  return process;
}

std::optional<RankFailure> failure_of(const std::string& report, int code) {
  SpawnedProcess process = started(report, [code] { _exit(code); });
  std::optional<RankFailure> failure = reap(process);
  EXPECT_TRUE(process.ended);
  return failure;
}

std::string report_of(const SpawnReport& report, const std::string& text) {
  return std::string(reinterpret_cast<const char*>(&report), sizeof report) + text;
}

TEST(Reap, ASuccessIsNoFailure) { EXPECT_FALSE(failure_of("", 0)); }

TEST(Reap, ReportsTheErrorWithWhomItBlames) {
  const auto failure = failure_of(report_of({true, 4, 77}, "it is lost"), 1);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 2);
  EXPECT_EQ(failure->problem, "failed: it is lost");
  EXPECT_TRUE(failure->blames_another);
  EXPECT_EQ(failure->peer, 4);
  EXPECT_EQ(failure->thrown_ns, 77);
}

// The program may end by itself, or in the middle of its report.
TEST(Reap, AnExitWithoutAReportHasItsCode) {
  EXPECT_EQ(failure_of("", 3)->problem, "ended with exit code 3");
  EXPECT_EQ(failure_of("short", 3)->problem, "ended with exit code 3");
  EXPECT_FALSE(failure_of(report_of({}, "no matter"), 0));
}

TEST(Reap, ASignalIsNamed) {
  SpawnedProcess process = started("", [] { kill(getpid(), SIGKILL); });
  const auto failure = reap(process);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->problem, "was ended by signal 9 (Killed)");
  EXPECT_FALSE(failure->blames_another);
}

TEST(Reap, AProgramThatWasExecutedMustBegin) {
  const auto failure = [](const std::string& report, int code) {
    SpawnedProcess process = started(report, [code] { _exit(code); });
    process.by_exec = true;
    return reap(process);
  };
  EXPECT_EQ(
      failure("", 0)->problem,
      "ended with exit code 0 and has not run its function; main() has to call dlaunch::run_if_spawned()");
  EXPECT_FALSE(failure(spawn_begun, 0));
  EXPECT_EQ(failure(spawn_begun, 5)->problem, "ended with exit code 5");
  EXPECT_EQ(failure(spawn_begun + report_of({}, "odd"), 1)->problem, "failed: odd");
}

// A child of the process may live on and hold the pipe: reap() must not wait for its end.
TEST(Reap, DoesNotWaitForTheProcessesOfTheProcess) {
  int held[2];
  ASSERT_EQ(pipe2(held, O_CLOEXEC), 0);
  SpawnedProcess process = started("", [&] {
    if (fork() == 0) {
      char byte = 0;
      close(held[1]);
      (void)!read(held[0], &byte, 1);  // until the test closes its end
      _exit(0);
    }
    _exit(6);
  });
  EXPECT_EQ(reap(process)->problem, "ended with exit code 6");
  close(held[0]);
  close(held[1]);
}

TEST(ProcessHandle, IsReadableWhenTheProcessHasEnded) {
  const pid_t pid = fork();
  if (pid == 0) {
    for (;;) pause();
  }
  const OwnedDescriptor handle(process_handle(pid));
  ASSERT_GE(handle.get(), 0);
  pollfd ended{handle.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ended, 1, 0), 0);
  kill(pid, SIGKILL);
  EXPECT_EQ(poll(&ended, 1, 60'000), 1);
  waitpid(pid, nullptr, 0);
  EXPECT_LT(process_handle(pid), 0);  // there is no such process any more
}

TEST(RendezvousFolder, EndsWithItsFiles) {
  std::string file;
  {
    const RendezvousFolder folder;
    const RendezvousFolder other;
    file = folder.file();
    EXPECT_NE(file, other.file());
    std::ofstream(file) << "keys";
    EXPECT_TRUE(std::filesystem::exists(file));
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(file).parent_path()));
}

TEST(OwnedDescriptor, IsClosedOnceByItsLastOwner) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const auto is_open = [](int fd) { return fcntl(fd, F_GETFD) >= 0; };
  {
    OwnedDescriptor first(ends[0]);
    OwnedDescriptor second(std::move(first));
    EXPECT_EQ(second.get(), ends[0]);
    OwnedDescriptor third(ends[1]);
    third = std::move(second);
    EXPECT_EQ(third.get(), ends[0]);
    EXPECT_TRUE(is_open(ends[0]));
  }
  EXPECT_FALSE(is_open(ends[0]));
  EXPECT_FALSE(is_open(ends[1]));
}

}  // namespace
}  // namespace dlaunch::internal
