// `dlaunch completion`: prints the completion script of a shell. See Command for arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_completion(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
