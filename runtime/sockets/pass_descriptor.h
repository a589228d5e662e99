// Descriptors that one process of a host hands to another one, over a Unix socket.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

constexpr std::size_t most_passed_descriptors = 3;

// Sends one byte with the descriptors: none, or most_passed_descriptors at most. Returns false if the socket
// does not take it now, or has ended.
bool send_descriptors(int socket, std::span<const int> fds);

// Receives one byte, and the descriptors that came with it.
struct Passed {
  bool has_byte;  // false: there is none now (errno is EAGAIN), or the connection has ended
  std::vector<Descriptor> files;
};
Passed receive_descriptors(int socket);

}  // namespace dlaunch::internal
