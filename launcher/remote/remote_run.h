// A job on several hosts, started from here: from what was asked for to an exit code.
#pragma once

#include "launcher/options/options.h"

namespace dlaunch::launcher {

// REQUIRES: hosts are named. Returns dlaunch's exit code; what failed has been said.
int run_on_hosts(const Options& options, const Dependencies& dependencies);

}  // namespace dlaunch::launcher
