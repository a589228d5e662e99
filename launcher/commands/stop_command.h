// `dlaunch stop`: ends a job in order. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_stop(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
