// What dlaunch does first, so that nothing that its caller did by accident changes what it and its workers
// do.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

// Descriptors 0 to 2 are open: /dev/null stands in for one that was closed, else the next file opened would
// be taken for the standard output. Others that the caller left open are not passed on: a worker has 0, 1, 2
// and those that one of the `arguments` names as /dev/fd/N or /proc/self/fd/N (a shell's <(command)). SIGCHLD
// is not ignored, else no end of a worker would be reported. No signal is blocked.
void sanitize_startup(const std::vector<std::string>& arguments);

// The descriptors above 2 that the argument names, "--data=/dev/fd/63": 63.
std::vector<int> inherited_descriptors_in(const std::string& argument);

}  // namespace dlaunch::launcher
