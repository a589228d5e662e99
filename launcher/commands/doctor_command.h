// `dlaunch doctor`: checks whether this machine can run jobs and reaches another one. See Command for
// arguments and exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_doctor(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
