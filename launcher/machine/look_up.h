// Whether this machine can look up a host's name.
#pragma once

#include <string>

namespace dlaunch::launcher {

// True for an IP address, and for a name that has an address in this machine's name services: getent(1) is
// run, for at most 5 seconds. False also if there is no answer by then. True if getent cannot be run: the
// caller then uses the name as it is.
bool can_look_up(const std::string& name);

}  // namespace dlaunch::launcher
