#include "launcher/commands/process_handle.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace dlaunch::launcher {

ProcessHandle::ProcessHandle(std::int64_t pid)
    : fd_(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))) {}

ProcessHandle::~ProcessHandle() {
  if (fd_ >= 0) close(fd_);
}

bool ProcessHandle::signal(int signo) const {
  return syscall(SYS_pidfd_send_signal, fd_, signo, nullptr, 0) == 0;
}

bool ProcessHandle::ended_within(Duration patience) const {
  constexpr std::int64_t longest_ms = 1'000'000'000;  // poll() takes an int
  const std::int64_t left = std::clamp<std::int64_t>(to_millis(patience), 0, longest_ms);
  pollfd one{fd_, POLLIN, 0};
  return poll(&one, 1, static_cast<int>(left)) > 0;
}

}  // namespace dlaunch::launcher
