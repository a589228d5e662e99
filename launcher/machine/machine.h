// What this machine has: processors, a name, programs.
#pragma once

#include <string>

#include "launcher/flags/settings.h"
#include "launcher/topology/cpu_list.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

Cpus allowed_cpus();  // those this process may use, not all there are; at least one
std::string host_name();
EnvironmentMap environment();

// A file of settings: at most a mebibyte.
Result<std::string> read_small_file(const std::string& path);

// Finds what execvp would run. The error says whether it is missing, a folder, or may not be executed.
Result<std::string> find_program(const std::string& name);

}  // namespace dlaunch::launcher
