// Checks the network between hosts: starts a probe on each of them, and lets each measure its way to each
// other.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/link.h"
#include "launcher/remote/host_file.h"

namespace dlaunch::launcher {

// This machine takes part, also if `hosts` does not name it. `ssh`: the remote shell's command and options.
// Takes about a second for each host; for each host that does not answer up to 20 s, for each broken link up
// to 45 s. Reports a host whose probe does not start, with the reason.
PeerReport check_peers(const std::vector<HostEntry>& hosts, const std::vector<std::string>& ssh);

}  // namespace dlaunch::launcher
