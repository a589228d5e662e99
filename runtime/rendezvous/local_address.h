// Which of this machine's addresses the other ranks are to connect to.
#pragma once

#include <string>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::internal {

// The network interfaces that the environment names: DLAUNCH_SOCKET_IFNAME, or else GLOO_SOCKET_IFNAME,
// separated by commas.
struct NamedInterfaces {
  std::string variable;  // empty: none is set
  std::vector<std::string> names;
};
NamedInterfaces named_interfaces();

// The numeric addresses that one network interface is reached by, the preferred one first: one of IPv4, one
// of IPv6, or both. At least one.
using Addresses = std::vector<std::string>;

bool is_ipv6(const std::string& numeric_address);

// Whether it names this machine only, as 127.0.0.1 and ::1 do.
bool is_loopback(const std::string& numeric_address);

// Those from which this machine reaches `host`, by the routing table; nothing is sent. If `host` is a master
// that every rank can reach, they belong to a network that all ranks share. Loopback addresses only if there
// are no others.
Result<Addresses> addresses_towards(const std::string& host);

// Those of the first interface that is up and not loopback.
Result<Addresses> first_outer_addresses();

// Those of the interface, `preferred` ones first. Fails if the machine has no such interface (the error lists
// the interfaces), or if the interface has no address that others can reach.
Result<Addresses> addresses_of_interface(const std::string& name, const Addresses& preferred);

// The address that others will probably connect to, before the processes know each other: that of the first
// interface in the environment's list, else the one towards `master_host`, else (if that is empty) one that
// is not loopback.
std::string probable_address(const std::string& master_host);

}  // namespace dlaunch::internal
