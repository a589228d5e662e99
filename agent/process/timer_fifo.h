// The FIFO at which processes of a job set timers for themselves (agent/observe/timer_requests.h).
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::agent {

struct TimerFifo {
  std::string path{};    // absolute; empty: there is none
  int fd = -1;           // open for reading, closed on exec. Locked: what two jobs read, neither has
  bool is_ours = false;  // we made it, and remove it

  [[nodiscard]] bool exists() const { return fd >= 0; }
};

// Makes it for this user only, or takes the one that this user has made there. An error: there is something
// else, another dlaunch reads it, or none can be made.
Result<TimerFifo> open_timer_fifo(const std::string& path);
// One that is ours, if it still stands there. More than once, or where there is none, does no harm.
void remove_timer_fifo(const TimerFifo& fifo);

}  // namespace dlaunch::agent
