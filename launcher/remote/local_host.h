// Detects which of the named hosts are this machine.
#pragma once

#include <string>
#include <vector>

#include "launcher/remote/host_file.h"
#include "store/base/address.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// For each host: whether it is a name or an address of this machine, and its user, if given, is the caller's.
// All names are resolved in parallel; a name that is not resolved after some seconds is another machine.
std::vector<bool> are_local_hosts(const std::vector<HostEntry>& hosts);

// This machine's address on the route to the first of these hosts that it has a route to.
Result<std::string> local_address_towards(const std::vector<Address>& others);

}  // namespace dlaunch::launcher
