// The guard's process (agent/process/keeper.h): it waits until the agent or the keeper ends, and then does
// the clean-up that the ended process would have done.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "agent/process/job_resources.h"

namespace dlaunch::agent {

struct GuardDuty {
  int agents_life = -1;  // a socket whose other end only the agent holds: readable once the agent has ended
  pid_t keeper = 0;
  int keepers_end = -1;    // a pidfd; -1: the kernel has none
  bool is_parent = false;  // this guard is the keeper's parent, and so a subreaper above the whole job
  JobResources resources;
  std::chrono::milliseconds keeper_timeout;
};

// Runs in the guard's process, which does nothing else. Removes `resources` only after the agent's end,
// because a living agent may start another keeper.
[[noreturn]] void run_guard(const GuardDuty& duty);

}  // namespace dlaunch::agent
