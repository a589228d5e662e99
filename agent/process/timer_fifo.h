// The FIFO through which processes of a job set timers for themselves (agent/observe/timer_requests.h).
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::agent {

struct TimerFifo {
  std::string path{};    // absolute; empty: there is none
  int fd = -1;           // open for reading, closed on exec. Locked: two readers would each lose requests
  bool is_ours = false;  // this job made it, and removes it

  [[nodiscard]] bool exists() const { return fd >= 0; }
};

// Makes it for this user only, or opens the one that this user has made there. An error: the path is
// something else, another dlaunch reads it, or it cannot be made.
Result<TimerFifo> open_timer_fifo(const std::string& path);
// Removes a FIFO of ours if it is still at its path. May be called more than once, or without a FIFO.
void remove_timer_fifo(const TimerFifo& fifo);

}  // namespace dlaunch::agent
