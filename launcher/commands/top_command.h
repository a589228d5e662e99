// `dlaunch top`: a live view of the jobs on this machine. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_top(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
