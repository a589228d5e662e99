// Which network interfaces carry a group's connections.
//
// DLAUNCH_SOCKET_IFNAME, or else GLOO_SOCKET_IFNAME, names them, separated by commas. Without them it is the
// one whose address reaches the master, so a machine with several, or with IPv6 only, needs no configuration.
// Where there is a choice between IPv4 and IPv6, all take the first of a rank's that all of them have, which
// begins with how it reaches the master.
#pragma once

#include <string>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch {

struct LocalAddress {
  std::string address;    // numeric
  std::string interface;  // its name, where the environment gave it
};

// One for each interface, as many on every rank. Called by every rank of the group: they tell each other.
// Where one of them has no usable address or another number of them, all throw DistNetworkError that says who
// and why.
std::vector<LocalAddress> agree_on_addresses(const BackendContext& context);

}  // namespace dlaunch
