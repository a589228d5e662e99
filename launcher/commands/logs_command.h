// `dlaunch logs`: finds a job's log files, shows and follows them. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_logs(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
