// What the guard does (agent/process/keeper.h): it waits until the agent or the keeper ends, and does then
// what that one would have done.
#pragma once

#include <sys/types.h>

#include <chrono>

#include "agent/process/job_resources.h"

namespace dlaunch::agent {

struct GuardDuty {
  int agents_life = -1;  // a socket whose other end only the agent holds
  pid_t keeper = 0;
  int keepers_end = -1;    // a pidfd; -1: the kernel has none
  bool is_parent = false;  // of the keeper, and so a subreaper above all processes of the job
  JobResources resources;
  std::chrono::milliseconds keeper_timeout;
};

// In the guard's process, which has nothing else to do. `resources` is removed only after the agent's end:
// the agent may start another keeper.
[[noreturn]] void run_guard(const GuardDuty& duty);

}  // namespace dlaunch::agent
