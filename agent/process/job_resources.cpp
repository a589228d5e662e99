#include "agent/process/job_resources.h"

#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "agent/platform/reaper.h"
#include "agent/process/scratch_dir.h"

namespace dlaunch::agent {

void remove_all(const JobResources& resources) {
  remove_job_cgroup(resources.cgroup);
  remove_timer_fifo(resources.timer_fifo);
  remove_scratch_dir(resources.scratch_dir);
  remove_scratch_dir(resources.pages_dir);
}

std::vector<pid_t> end_all(const JobResources& resources, Duration patience) {
  constexpr int pause_ms = 2;
  const Duration until = monotonic_now() + patience;
  while (true) {
    kill_job_cgroup(resources.cgroup);
    std::vector<pid_t> living = kill_and_reap_all(std::max(until - monotonic_now(), Duration(0)));
    for (const pid_t pid : kill_marked_processes(resources.mark)) {
      if (std::find(living.begin(), living.end(), pid) == living.end()) living.push_back(pid);
    }
    if (living.empty() || monotonic_now() >= until) return living;
    poll(nullptr, 0, pause_ms);
  }
}

bool end_and_remove_all(const JobResources& resources, Duration patience) {
  const std::vector<pid_t> survivors = end_all(resources, patience);
  for (pid_t pid : survivors) {
    if (const std::string name = explain_process(pid); !name.empty())
      std::fprintf(stderr, "dlaunch: process %s survived SIGKILL\n", name.c_str());
  }
  remove_all(resources);
  return survivors.empty();
}

}  // namespace dlaunch::agent
