#pragma once

#include <cstddef>

namespace dlaunch {

// Gives the connections whose send buffer Gloo has fixed at `longest` bytes a better one. (Gloo fixes it at
// the longest message into a bound buffer; long messages, which share the connection, wait for each other in
// so small a buffer.)
//
// Within a host it becomes so small that what is written there is still in the processor's cache when the
// other process reads it; a larger one costs up to half the speed. To another host, where the buffer has to
// hold what is on the line, the kernel finds the size by itself (from Linux 5.14; before, it gets what it
// may).
void fit_send_buffers(std::size_t longest);

}  // namespace dlaunch
