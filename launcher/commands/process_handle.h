// A handle on a process itself: its number may be given to another the moment it ends.
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
  // False: it could not be signalled; errno says why.
  [[nodiscard]] bool signal(int signo) const;
  // Waits until then at most; a signal to this process ends the wait early. Whether it has ended.
  [[nodiscard]] bool ended_within(Duration patience) const;

 private:
  const int fd_;
};

}  // namespace dlaunch::launcher
