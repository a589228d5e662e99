#pragma once

#include <string>

namespace dlaunch {

// Gives the kernel back the size of a connection's send buffer, which Gloo fixes at its longest message when it
// writes into bound buffers: long messages, which share the connection, are faster with what the kernel finds
// out by itself. `local_address`: "[address]:port" of this end. Does nothing where the kernel cannot (before
// Linux 5.14).
void let_send_buffer_grow(const std::string& local_address);

}  // namespace dlaunch
