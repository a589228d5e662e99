// How much CPU time processes have used, as the kernel counts it.
#pragma once

#include <cstdint>

#include "store/base/time.h"

namespace dlaunch::agent {

// Of this process, its descendants, and those of their children that have ended and were waited for. Reads
// /proc. Zero: it has ended.
Duration cpu_time_of_tree(std::int64_t pid);

}  // namespace dlaunch::agent
