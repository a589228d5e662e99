// `dlaunch trace`: the operations of all ranks over time. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_trace(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
