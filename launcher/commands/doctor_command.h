// `dlaunch doctor`: is this machine fit for jobs, and does it reach another? See Command for arguments and
// exit codes.
#pragma once

#include <string>
#include <vector>

namespace dlaunch::launcher {

int run_doctor(const std::vector<std::string>& arguments);

}  // namespace dlaunch::launcher
