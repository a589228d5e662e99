// A child that is born in a control group. Moving a process there afterwards costs the kernel milliseconds
// (it waits until no thread of the machine forks), and leaves a moment in which the child is outside.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace dlaunch::agent {

// As clone(2) with CLONE_VM | CLONE_VFORK and SIGCHLD: `main` runs on `stack`, in this process's memory, and
// this returns when it has called exec or _exit; it must not return. `group` is a descriptor of the group's
// directory. The child's pid; -1 with errno (ENOSYS where there is no clone3).
pid_t clone_into_group(int group, int (*main)(void*), void* argument, char* stack, std::size_t stack_size);

}  // namespace dlaunch::agent
