// Starts a child inside a cgroup. Moving a process there afterwards costs the kernel milliseconds (it waits
// until no thread of the machine forks), and the child is outside the cgroup for a moment.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace dlaunch::agent {

// Like clone(2) with `flags` and SIGCHLD: `main` runs on `stack` and must not return. `cgroup` is a
// descriptor of the cgroup's directory. With CLONE_PARENT_SETTID the kernel writes the child's pid to `made`.
// Returns the child's pid, or -1 with errno (ENOSYS: the kernel has no clone3).
pid_t clone_into_cgroup(int cgroup, unsigned flags, int (*main)(void*), void* argument, char* stack,
                        std::size_t stack_size, pid_t* made = nullptr);

}  // namespace dlaunch::agent
