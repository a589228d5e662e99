// Each part that changes its process runs in a process of its own.

#include "agent/process/helper_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>

#include "tests/store/client/other_process.h"

namespace dlaunch::agent {
namespace {

using test::OtherProcess;

volatile std::sig_atomic_t handled = 0;
void handle(int) { handled = 1; }

bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0 || errno != EBADF; }

TEST(HelperProcess, TheNameFillsItsAreaAndHasThePid) {
  std::array<char, 40> area{};
  const ProcessName name = name_in(area.data(), area.size(), "dl-guard");
  EXPECT_EQ(name.words.size(), area.size() - 1);
  EXPECT_TRUE(name.words.starts_with("dl-guard of " + std::to_string(getpid()) + '\0')) << name.words;
  EXPECT_EQ(name_in(area.data(), 4, "dl-guard").words, "dl-") << "no more than the area holds";
}

TEST(HelperProcess, RenamingShowsTheName) {
  OtherProcess([](const std::string&) {
    std::array<char, 40> area{};
    const ProcessName name = name_in(area.data(), area.size(), "dl-guard");
    rename_process(name);
    std::string comm;
    std::getline(std::ifstream("/proc/self/comm"), comm);
    return comm == "dl-guard" && std::string(area.data()) == name.words.c_str();
  });
}

TEST(HelperProcess, InheritedSignalsAreThoseThatWereIgnoredBefore) {
  OtherProcess([](const std::string&) {
    for (const int signo : kept_ignored) std::signal(signo, SIG_DFL);
    std::signal(SIGHUP, SIG_IGN);
    const Inherited before = inherited_signals();
    ignore_signals();
    const Inherited after = inherited_signals();
    raise(SIGTERM);
    bool well = before.ignored.at(SIGHUP) && !before.ignored.at(SIGTERM);
    for (const int signo : kept_ignored) well = well && after.ignored.at(static_cast<std::size_t>(signo));
    return well;
  });
}

TEST(HelperProcess, KeepsOnlyTheNamedDescriptorsAndNoHandler) {
  OtherProcess([](const std::string&) {
    std::signal(SIGUSR1, handle);
    std::signal(SIGUSR2, SIG_IGN);
    std::array<int, 5> fds{};
    for (int& fd : fds) fd = open("/dev/null", O_RDONLY);
    drop_agents_state({fds[3], -1, fds[1], fds[3]});
    bool well = is_open(0) && is_open(1) && is_open(2);
    for (std::size_t i = 0; i < fds.size(); ++i) well = well && is_open(fds.at(i)) == (i == 1 || i == 3);
    struct sigaction user1 {};
    struct sigaction user2 {};
    sigaction(SIGUSR1, nullptr, &user1);
    sigaction(SIGUSR2, nullptr, &user2);
    return well && user1.sa_handler == SIG_DFL && user2.sa_handler == SIG_IGN;
  });
}

TEST(HelperProcess, ABlockedSignalComesAfterwards) {
  OtherProcess([](const std::string&) {
    std::signal(SIGUSR1, handle);
    {
      const BlockedSignals blocked;
      raise(SIGUSR1);
      if (handled != 0) return false;
    }
    if (handled == 0) return false;
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    allow_all_signals();
    handled = 0;
    raise(SIGUSR1);
    return handled == 1;
  });
}

TEST(HelperProcess, AProcesssDescriptorIsReadableOnceItHasEnded) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[1]);
    char byte = 0;
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
  }
  close(ends[0]);
  const int process = open_process(child);
  if (process >= 0) {  // the kernel has such descriptors
    pollfd end{process, POLLIN, 0};
    EXPECT_EQ(poll(&end, 1, 0), 0);
    close(ends[1]);
    EXPECT_EQ(poll(&end, 1, 60'000), 1);
    close(process);
  } else {
    close(ends[1]);
  }
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace dlaunch::agent
