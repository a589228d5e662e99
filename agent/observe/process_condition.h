// Whether a process runs, is stopped or has ended, as the kernel shows it.
#pragma once

#include <cstdint>
#include <string>

#include "agent/model/collective_progress.h"

namespace dlaunch::agent {

// Reads /proc. A process whose end has begun counts as ended: its connections may be closed already.
Condition condition_of(std::int64_t pid);

// What its main thread does: "is running", "sleeps in the kernel (futex_wait_queue)", "waits in the kernel
// without interruption (nfs_wait_bit_killable)", "is stopped", "is stopped by a debugger". Empty: it has
// ended. The kernel's function is left out if it may not be read.
std::string state_of(std::int64_t pid);

// Its memory that is resident, in bytes; shared pages included. 0: it has ended.
std::uint64_t resident_bytes(std::int64_t pid);

}  // namespace dlaunch::agent
