#include "agent/job_traces.h"

#include <cstdio>
#include <string>
#include <vector>

#include "agent/reaper.h"
#include "agent/scratch_dir.h"

namespace dlaunch::agent {

void remove_all(const JobTraces& traces) {
  remove_job_group(traces.group);
  remove_timer_fifo(traces.timer_fifo);
  remove_scratch_dir(traces.scratch_dir);
  remove_scratch_dir(traces.pages_dir);
}

bool end_and_remove_all(const JobTraces& traces, Duration patience) {
  kill_job_group(traces.group);
  const std::vector<pid_t> survivors = kill_and_reap_all(patience);
  for (pid_t pid : survivors) {
    if (const std::string who = explain_process(pid); !who.empty())
      std::fprintf(stderr, "dlaunch: process %s survives SIGKILL\n", who.c_str());
  }
  remove_all(traces);
  return survivors.empty();
}

}  // namespace dlaunch::agent
