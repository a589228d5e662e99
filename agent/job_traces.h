// What a job leaves in the machine besides its processes. Whoever of agent, guard and keeper lives longest
// sees to it that nothing remains.
#pragma once

#include "agent/job_group.h"
#include "agent/locked_dir.h"
#include "agent/timer_fifo.h"
#include "store/base/time.h"

namespace dlaunch::agent {

struct JobTraces {
  LockedDir scratch_dir;
  JobGroup group;
  LockedDir pages_dir{};  // where that is another one
  TimerFifo timer_fifo{};
};

// Removes what is left of a job that has no process any more. More than once does no harm.
void remove_all(const JobTraces& traces);

// Ends every descendant of this process and what is in the group, and removes the rest. Says on stderr what
// cannot be ended; false then. Blocks until `patience` is over at most. More than once does no harm.
bool end_and_remove_all(const JobTraces& traces, Duration patience = std::chrono::seconds(60));

}  // namespace dlaunch::agent
