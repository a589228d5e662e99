// This machine: its CPUs, name, environment and programs.
#pragma once

#include <string>

#include "launcher/flags/settings.h"
#include "launcher/topology/cpu_list.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

Cpus allowed_cpus();  // those this process may use; at least one
std::string host_name();
EnvironmentMap environment();

// Reads a file of settings, of at most 1 MiB.
Result<std::string> read_small_file(const std::string& path);

// Finds the file that execvp would run. The error reports whether it is missing, a directory, or not
// executable.
Result<std::string> find_program(const std::string& name);

}  // namespace dlaunch::launcher
