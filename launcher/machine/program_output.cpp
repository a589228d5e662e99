#include "launcher/machine/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "store/client/steady_time.h"

extern char** environ;

namespace dlaunch::launcher {
namespace {

constexpr Duration stop_timeout = std::chrono::seconds(2);

// Rounded up: a wait that ends for lack of time ends after the deadline, never a part of a millisecond
// before.
int left_ms(TimePoint deadline) {
  constexpr Duration almost_one = std::chrono::nanoseconds(999'999);
  return static_cast<int>(
      std::clamp<std::int64_t>(to_millis(deadline - steady_now() + almost_one), 0, 60'000));
}

// -1: it could not be started; errno has the reason.
pid_t start(const std::vector<std::string>& command, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = -1;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  errno = failed;
  return failed == 0 ? pid : -1;
}

// Reads until the end of the stream, the deadline, or `most` bytes.
std::string read_until(int fd, TimePoint deadline, std::size_t most) {
  std::string text;
  while (text.size() < most) {
    pollfd one{fd, POLLIN, 0};
    const int ready = poll(&one, 1, left_ms(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    char chunk[16 * 1024];
    const ssize_t got = read(fd, chunk, std::min(sizeof chunk, most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk, static_cast<std::size_t>(got));
  }
  return text;
}

// SIGTERM first: a debugger then detaches from its process. A process that waits for a device in the kernel
// (nvidia-smi for a lost GPU) does not end with SIGKILL either: it is left to init.
void end(pid_t pid, int output) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  kill(pid, SIGTERM);
  (void)read_until(output, steady_now() + stop_timeout, SIZE_MAX);
  kill(pid, SIGKILL);
  const TimePoint deadline = steady_now() + stop_timeout;
  pollfd one{process, POLLIN, 0};
  while (process >= 0 && poll(&one, 1, left_ms(deadline)) < 0 && errno == EINTR) {
  }
  if (process >= 0) close(process);
  while (waitpid(pid, nullptr, process >= 0 ? WNOHANG : 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string find_on_path(const std::string& program) {
  const char* const path = std::getenv("PATH");
  const std::string folders = path != nullptr ? path : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= folders.size();) {
    const std::size_t colon = std::min(folders.find(':', at), folders.size());
    std::string candidate = folders.substr(at, colon - at) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    at = colon + 1;
  }
  return "";
}

Result<std::string> output_of(const std::vector<std::string>& command, TimePoint deadline, std::size_t most) {
  int pipe[2] = {-1, -1};
  if (pipe2(pipe, O_CLOEXEC) != 0) return Error{ErrorKind::io, "no pipe", "", std::strerror(errno), ""};
  const pid_t pid = start(command, pipe[1]);
  const int why = errno;
  close(pipe[1]);
  if (pid < 0) {
    close(pipe[0]);
    return Error{ErrorKind::io, "cannot run " + command.front(), "", std::strerror(why), ""};
  }
  std::string text = read_until(pipe[0], deadline, most);
  end(pid, pipe[0]);
  close(pipe[0]);
  return text;
}

}  // namespace dlaunch::launcher
