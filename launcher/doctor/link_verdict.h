// What the measurements between hosts mean for jobs on them. Pure.
#pragma once

#include <string>

#include "launcher/doctor/finding.h"
#include "launcher/doctor/link.h"

namespace dlaunch::launcher {

// What is wrong, and what to do, with the names of the hosts. If nothing is bad, the first line says so.
// REQUIRES: hosts with `facts` have a link to each other such host.
Findings judge(const PeerReport& report);

// One line for each direction of each pair: ports, packets, latency, bandwidth, clocks. Empty if there is no
// link.
std::string table(const PeerReport& report);

}  // namespace dlaunch::launcher
