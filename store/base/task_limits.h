// The limits on the number of processes and threads. Reads small files of the kernel, which takes
// microseconds.
#pragma once

#include <cstdint>
#include <string>

#include "store/base/namespaces.h"

namespace dlaunch::store {

struct TaskLimits {
  // How often pids.max has made control groups refuse a process or a thread until now: this process's group
  // and its parents.
  std::uint64_t refusals = 0;
  // "pids.max is 12 in cgroup /job, ulimit -u is 100": the limits of this process. Empty: none is known.
  std::string describe;
};

// The mount points of the kernel's files.
struct TaskLimitPlaces {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

TaskLimits task_limits(const TaskLimitPlaces& places = {});

// Why a process or thread could not be started after EAGAIN: "Resource temporarily unavailable: a limit on
// processes and threads is reached (pids.max is 12 in cgroup /job); raise the limit on processes ...".
std::string why_no_task();

}  // namespace dlaunch::store
