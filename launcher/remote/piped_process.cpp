#include "launcher/remote/piped_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace dlaunch::launcher {

Result<PipedProcess> run_with_pipes(const std::vector<std::string>& command) {
  PipedProcess process;
  std::array<std::array<int, 2>, 3> pipes{{{-1, -1}, {-1, -1}, {-1, -1}}};
  const auto close_all = [&] {
    for (const auto& pipe : pipes) {
      for (const int fd : pipe) {
        if (fd >= 0) close(fd);
      }
    }
  };
  for (auto& pipe : pipes) {
    if (pipe2(pipe.data(), O_CLOEXEC) != 0) {
      const int why = errno;
      close_all();
      return Error{ErrorKind::io, "no pipe", "", std::strerror(why), why == EMFILE ? "raise ulimit -n" : ""};
    }
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipes[0][0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes[1][1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipes[2][1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
  sigset_t normal;
  sigemptyset(&normal);
  sigaddset(&normal, SIGPIPE);
  sigaddset(&normal, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &normal);

  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int failed = posix_spawnp(&process.pid, argv[0], &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    close_all();
    return Error{ErrorKind::io, "cannot run " + command.front(), "", std::strerror(failed), ""};
  }
  close(pipes[0][0]);
  close(pipes[1][1]);
  close(pipes[2][1]);
  process.input = pipes[0][1];
  process.outputs = {pipes[1][0], pipes[2][0]};
  for (const int fd : {process.input, process.outputs[0], process.outputs[1]}) fcntl(fd, F_SETFL, O_NONBLOCK);
  return process;
}

}  // namespace dlaunch::launcher
