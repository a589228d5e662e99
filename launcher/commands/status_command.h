// `dlaunch status`: the jobs of this machine, or one job by its endpoint. See Command for arguments and exit
// codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_status(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
