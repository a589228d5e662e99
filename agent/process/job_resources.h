// What a job holds on the machine besides its processes. Of agent, guard and keeper, the one that lives
// longest removes it.
#pragma once

#include <sys/types.h>

#include <vector>

#include "agent/process/job_cgroup.h"
#include "agent/process/job_mark.h"
#include "agent/process/timer_fifo.h"
#include "store/base/locked_dir.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct JobResources {
  LockedDir scratch_dir;
  JobCgroup cgroup;
  LockedDir pages_dir{};  // set only if it is not scratch_dir
  TimerFifo timer_fifo{};
  JobMark mark = no_job_mark;  // of the processes
};

inline constexpr Duration default_patience = std::chrono::seconds(60);

// Removes what is left of a job whose processes have all ended. May be called more than once.
void remove_all(const JobResources& resources);

// Kills every descendant of this process, every process in the cgroup, and every process with the mark.
// Returns the survivors of SIGKILL. Blocks for `patience` at most. May be called more than once.
std::vector<pid_t> end_all(const JobResources& resources, Duration patience = default_patience);

// end_all(), then remove_all(). Names survivors of SIGKILL on stderr and returns false if there are any.
bool end_and_remove_all(const JobResources& resources, Duration patience = default_patience);

}  // namespace dlaunch::agent
