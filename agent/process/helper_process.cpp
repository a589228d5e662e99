#include "agent/process/helper_process.h"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

namespace dlaunch::agent {

ProcessName name_in(char* area, std::size_t size, const char* comm) {
  std::string words = std::string(comm) + " of " + std::to_string(getpid());
  words.resize(size > 0 ? size - 1 : 0);
  return {comm, std::move(words), area};
}

void rename_process(const ProcessName& name) {
  prctl(PR_SET_NAME, name.comm, 0, 0, 0);
  std::memcpy(name.area, name.words.data(), name.words.size());
}

Inherited inherited_signals() {
  Inherited inherited;
  for (const int signo : kept_ignored) {
    struct sigaction now {};
    sigaction(signo, nullptr, &now);
    inherited.ignored[static_cast<std::size_t>(signo)] = now.sa_handler == SIG_IGN;
  }
  return inherited;
}

void ignore_signals() {
  for (const int signo : kept_ignored) std::signal(signo, SIG_IGN);
}

void drop_agents_state(std::vector<int> kept) {
  for (int signo = 1; signo < NSIG; ++signo) {
    struct sigaction now {};
    if (sigaction(signo, nullptr, &now) == 0 && now.sa_handler != SIG_IGN && now.sa_handler != SIG_DFL)
      std::signal(signo, SIG_DFL);
  }
  std::sort(kept.begin(), kept.end());
  int next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd < next) continue;  // none, or the same
    if (fd > next) syscall(SYS_close_range, next, fd - 1, 0);
    next = fd + 1;
  }
  syscall(SYS_close_range, next, ~0U, 0);
}

int open_process(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

BlockedSignals::BlockedSignals() : before_{} {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before_);
}

BlockedSignals::~BlockedSignals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void allow_all_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace dlaunch::agent
