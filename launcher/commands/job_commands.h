// `dlaunch status` and `dlaunch stop`. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_status(const std::vector<std::string>& arguments);
int run_stop(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
