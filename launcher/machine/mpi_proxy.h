// Identifies the run of MPICH's Hydra that this process belongs to, which the environment does not name.
#pragma once

#include <string>

namespace dlaunch::launcher {

// The pid and start time of the nearest ancestor that is a Hydra process: equal for all processes of one run
// on a host, and different for any other run. Empty: no ancestor is one, or /proc is not readable.
std::string hydra_proxy();

}  // namespace dlaunch::launcher
