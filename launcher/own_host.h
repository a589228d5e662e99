// Which of the named hosts are this machine.
#pragma once

#include <string>
#include <vector>

#include "launcher/host_file.h"

namespace dlaunch::launcher {

// By host: a name or an address of one of this machine's interfaces. A user other than the one who asks makes
// it another's. All names are looked up at once; what is not known after some seconds is not this machine.
std::vector<bool> are_this_machine(const std::vector<HostEntry>& hosts);

}  // namespace dlaunch::launcher
