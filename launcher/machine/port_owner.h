// Finds the process that listens at a port of this machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

struct PortOwner {
  pid_t pid = 0;
  std::string program;  // its short name, as in /proc/PID/comm
};

// None: no process listens at this TCP port, or it belongs to another user. Reads /proc: milliseconds on a
// machine with many processes.
std::optional<PortOwner> find_port_owner(std::uint16_t port);

// If the address of `error` is in use: the same error with the process that uses its port, if that is known.
Error name_port_owner(Error error, std::uint16_t port);

}  // namespace dlaunch::launcher
