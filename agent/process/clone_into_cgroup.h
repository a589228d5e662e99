// A child that is born in a control group. Moving a process there afterwards costs the kernel milliseconds
// (it waits until no thread of the machine forks), and leaves a moment in which the child is outside.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace dlaunch::agent {

// As clone(2) with `flags` and SIGCHLD: `main` runs on `stack`, and must not return. `group` is a descriptor
// of the group's directory. The child's pid; -1 with errno (ENOSYS where there is no clone3).
pid_t clone_into_cgroup(int cgroup, unsigned flags, int (*main)(void*), void* argument, char* stack,
                        std::size_t stack_size);

}  // namespace dlaunch::agent
