// A job on several hosts, started from here: runs what RemoteJob decides, and passes on what the hosts say.
#pragma once

#include "launcher/options.h"

namespace dlaunch::launcher {

// REQUIRES: hosts are named. Returns dlaunch's exit code; what failed has been said.
int run_on_hosts(const Options& asked, const Outside& outside);

}  // namespace dlaunch::launcher
