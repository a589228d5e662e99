// Which network interfaces carry a group's connections.
//
// DLAUNCH_SOCKET_IFNAME, or else GLOO_SOCKET_IFNAME, names them, separated by commas. Without them the group
// uses the interface that reaches the master, so a machine with several interfaces, or with IPv6 only, needs
// no configuration. If both IPv4 and IPv6 are possible, all ranks use the first address of a rank whose
// family every rank has; the address that reaches the master comes first.
#pragma once

#include <string>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

struct LocalAddress {
  std::string address;    // numeric
  std::string interface;  // its name, if the environment gave it
};

// One for each interface, as many on every rank. Every rank of the group calls it: the ranks exchange their
// addresses. If a rank has no usable address, or another number of them, all ranks throw a DistNetworkError
// that names the rank and the reason.
std::vector<LocalAddress> agree_on_addresses(const BackendContext& context);

}  // namespace dlaunch::internal
