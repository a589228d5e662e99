// What a job leaves in the machine besides its processes. Of agent, guard and keeper, the one that lives
// longest sees to it that nothing remains.
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
  LockedDir pages_dir{};  // where that is another one
  TimerFifo timer_fifo{};
  JobMark mark = no_job_mark;  // of the processes
};

inline constexpr Duration default_patience = std::chrono::seconds(60);

// Removes what is left of a job that has no process any more. More than once does no harm.
void remove_all(const JobResources& resources);

// Ends every descendant of this process, what is in the group, and what carries the mark. Returns the
// survivors of SIGKILL. Blocks until `patience` is over at most. More than once does no harm.
std::vector<pid_t> end_all(const JobResources& resources, Duration patience = default_patience);

// Does so, and removes the rest. Names on stderr what cannot be ended; false then.
bool end_and_remove_all(const JobResources& resources, Duration patience = default_patience);

}  // namespace dlaunch::agent
