// A handle (pidfd) on a process: unlike its pid, it never refers to another process.
#pragma once

#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::launcher {

class ProcessHandle {
 public:
  explicit ProcessHandle(std::int64_t pid);
  ~ProcessHandle();
  ProcessHandle(const ProcessHandle&) = delete;
  ProcessHandle& operator=(const ProcessHandle&) = delete;

  [[nodiscard]] bool found() const { return fd_ >= 0; }
  // False: the signal could not be sent; errno has the reason.
  [[nodiscard]] bool signal(int signo) const;
  // Waits at most this long, and returns whether the process has ended. A signal to this process ends the
  // wait early.
  [[nodiscard]] bool ended_within(Duration patience) const;

 private:
  const int fd_;
};

}  // namespace dlaunch::launcher
