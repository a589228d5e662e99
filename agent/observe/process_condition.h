// Whether a process runs, is stopped or has ended, as the kernel shows it.
#pragma once

#include <cstdint>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

// Reads /proc. A process whose end has begun counts as ended: its connections may be closed already.
Condition condition_of(std::int64_t pid);

}  // namespace dlaunch::agent
