// This machine's addresses, as numbers.
#pragma once

#include <sys/socket.h>

#include <set>
#include <string>

namespace dlaunch::launcher {

// "10.0.0.1", "fe80::1%eth0"; empty: not an IP address, or null.
std::string numeric(const sockaddr* address);

// The addresses of all interfaces.
std::set<std::string> local_addresses();

}  // namespace dlaunch::launcher
