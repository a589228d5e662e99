// Which of this machine's addresses the other ranks are to connect to.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch {

// The numeric address from which this machine reaches `host`: what the routing table says, without sending
// anything. With a master that every rank can reach, that is an address on a network that they all share.
Result<std::string> address_towards(const std::string& host);

// Whether it names this machine only, as 127.0.0.1 and ::1 do.
bool is_loopback(const std::string& numeric_address);

// An address of this machine that others may reach: that of the first
// interface that is up and not the loopback.
Result<std::string> first_outer_address();

// An address of the interface: `preferred` if that is one of them, else one of its family, else any. Fails
// where the machine has no such interface (and says which it has), or others cannot reach it by an address.
Result<std::string> address_of_interface(const std::string& name, const std::string& preferred);

}  // namespace dlaunch
