// What this node's workers have used and printed until now. A plain value.
#pragma once

#include <cstdint>
#include <vector>

#include "store/base/time.h"

namespace dlaunch::agent {

struct WorkerUsage {
  // The CPU time of each worker with its descendants, by local rank.
  std::vector<Duration> cpu;
  std::uint64_t printed = 0;  // bytes, of all workers

  bool operator==(const WorkerUsage&) const = default;
};

}  // namespace dlaunch::agent
