// `dlaunch dump`: where each worker of a job is. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_dump(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
