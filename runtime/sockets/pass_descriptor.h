// Descriptors that one process of a host hands to another one, over a Unix socket.
#pragma once

#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// Sends one byte with the descriptor; -1: without. False: the socket does not take it now, or has ended.
bool send_descriptor(int socket, int fd);

// Receives one byte, and the descriptor that came with it: not open if there was none. False: there is no
// byte now (errno is EAGAIN), or the connection has ended.
struct Passed {
  bool has_byte;
  Descriptor file;
};
Passed receive_descriptor(int socket);

}  // namespace dlaunch::internal
