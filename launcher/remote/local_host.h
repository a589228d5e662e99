// Which of the named hosts are this machine.
#pragma once

#include <string>
#include <vector>

#include "launcher/remote/host_file.h"
#include "store/base/address.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// By host: a name or an address of one of this machine's interfaces. A user other than the one who asks makes
// it another's. All names are looked up at once; what is not known after some seconds is not this machine.
std::vector<bool> are_local_hosts(const std::vector<HostEntry>& hosts);

// The address that this machine has on the way to the first of these that it knows a way to.
Result<std::string> local_address_towards(const std::vector<Address>& others);

}  // namespace dlaunch::launcher
