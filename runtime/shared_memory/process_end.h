// Whether a process of this host has ended, before its connections show it.
//
// When a process is killed the kernel frees its memory first, which takes 0.1 s for each GB, and closes its
// connections then.
#pragma once

#include <cstdint>

namespace dlaunch::internal {

// The namespace of this process's number; 0: it cannot be known, or /proc shows another one.
[[nodiscard]] std::uint64_t own_pid_namespace();

// Whether the kernel has taken the memory of all threads that /proc lists. A process that starts and ends
// threads may seem to have ended, but not in several calls. False if it cannot be known, also if the process
// has another PID namespace than this one. Takes some microseconds, does not wait for that process, and needs
// no permission to read its memory. Any thread.
[[nodiscard]] bool seems_ended(std::uint64_t process, std::uint64_t pid_namespace);

}  // namespace dlaunch::internal
