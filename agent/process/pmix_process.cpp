#include "agent/process/pmix_process.h"

#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/process/helper_process.h"

namespace dlaunch::agent {
namespace {

constexpr int connection_there = 3;
constexpr int patience_ms = 2000;  // it removes what ranks that were killed have left in /dev/shm

}  // namespace

std::string PmixProcess::start(const std::string& program, int connection) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, connection, connection_there);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = program;
  std::string serve = "serve";
  const std::array<char*, 3> arguments{name.data(), serve.data(), nullptr};
  const int failed = posix_spawn(&pid_, program.c_str(), &actions, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == 0) return "";
  pid_ = 0;
  return program + ": " + std::strerror(failed);
}

void PmixProcess::end() {
  if (pid_ == 0) return;
  const pid_t pid = std::exchange(pid_, 0);
  const int process = open_process(pid);
  if (process >= 0) {
    pollfd ended{process, POLLIN, 0};
    while (poll(&ended, 1, patience_ms) < 0 && errno == EINTR) {
    }
    close(process);
  }
  kill(pid, SIGKILL);  // does nothing to one that has ended
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace dlaunch::agent
