// Parses the hosts that `dlaunch doctor --peer` names. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/remote/host_file.h"
#include "store/base/address.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct PeerList {
  std::vector<HostEntry> hosts;  // without a port: all pairs of them are checked
  std::vector<Address> ports;    // with a port: whether something listens there
};

// "a,b,c[01-16],alice@d" and "e:29500,[fe80::1]:29500". An error: the exit code is 2.
Result<PeerList> parse_peers(const std::string& text);

}  // namespace dlaunch::launcher
