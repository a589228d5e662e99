// Runs a job on several hosts, from the options to the exit code.
#pragma once

#include "launcher/options/options.h"

namespace dlaunch::launcher {

// REQUIRES: hosts are named. Returns dlaunch's exit code, after reporting failures.
int run_on_hosts(const Options& options, const Dependencies& dependencies);

}  // namespace dlaunch::launcher
