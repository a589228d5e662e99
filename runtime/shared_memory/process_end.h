// Whether a process of this host has ended, before its connections show it.
//
// When a process is killed the kernel frees its memory first, which takes 0.1 s for each GB, and closes its
// connections then.
#pragma once

#include "runtime/shared_memory/direct_read.h"

namespace dlaunch::internal {

// True once the kernel has taken the memory of all its threads. False also if that cannot be known: the
// kernel forbids process_vm_readv by seccomp, /proc is not mounted, or the process has another PID namespace.
// Takes a microsecond for a process that runs. Any thread.
[[nodiscard]] bool has_ended(const ProcessMemory& process);

}  // namespace dlaunch::internal
