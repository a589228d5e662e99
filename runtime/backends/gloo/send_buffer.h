#pragma once

#include <cstddef>

namespace dlaunch {

// Gives the kernel back the size of the send buffers that Gloo has fixed at `longest`, the bytes of the
// longest message into a bound buffer: long messages, which share the connection, are held back by so small a
// buffer. Does nothing where the kernel cannot (before Linux 5.14).
void let_send_buffers_grow(std::size_t longest);

}  // namespace dlaunch
