// The limits on how many processes and threads there may be. Reads small files of the kernel, which takes
// microseconds.
#pragma once

#include <cstdint>
#include <string>

namespace dlaunch {

struct TaskLimits {
  // How often control groups have refused a process or a thread because of pids.max, until now: in the one of
  // this process and in those above it.
  std::uint64_t refusals = 0;
  // "pids.max is 12 in cgroup /job, ulimit -u is 100": those that hold for this process. Empty: none is
  // known.
  std::string describe;
};

// Where the kernel shows itself.
struct TaskLimitPlaces {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

TaskLimits task_limits(const TaskLimitPlaces& places = {});

// "Resource temporarily unavailable: a limit on processes and threads is reached (pids.max is 12 in cgroup
// /job); raise the limit on processes ...": why a process or thread could not be started that the system
// refused with EAGAIN.
std::string why_no_task();

}  // namespace dlaunch
