// Resets the process state that dlaunch inherited and that must not affect it or its workers.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

// Opens /dev/null for those of the descriptors 0 to 2 that are closed, else the next file opened would become
// the standard output. Marks other inherited descriptors close-on-exec: a worker gets 0, 1, 2 and those that
// one of the `arguments` names as /dev/fd/N or /proc/self/fd/N (a shell's <(command)). Resets SIGCHLD, since
// an ignored SIGCHLD hides the end of workers. Unblocks all signals. As process 1 of a container, gives the
// signals that end other processes by default the same effect, which the kernel withholds from process 1:
// until dlaunch handles them, they would be lost.
void sanitize_startup(const std::vector<std::string>& arguments);

// The descriptors above 2 that the argument names, "--data=/dev/fd/63": 63.
std::vector<int> inherited_descriptors_in(const std::string& argument);

}  // namespace dlaunch::launcher
