#include "agent/helper_process.h"

#include <sys/prctl.h>
#include <unistd.h>

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

Inherited ignore_signals() {
  Inherited inherited;
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  for (const int signo : kept_ignored) {
    struct sigaction before {};
    sigaction(signo, &ignore, &before);
    inherited.ignored[static_cast<std::size_t>(signo)] = before.sa_handler == SIG_IGN;
  }
  return inherited;
}

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
