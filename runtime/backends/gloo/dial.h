// Sockets: where a process listens, and how it reaches another one.
#pragma once

#include <cstdint>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/backends/gloo/descriptor.h"
#include "runtime/backends/gloo/handshake.h"

namespace dlaunch {

struct Listener {
  Descriptor socket;
  std::uint16_t port;
};
// At a free port of `address` (numeric). Throws DistNetworkError.
Listener listen_at(const std::string& address);

// None is waiting: a descriptor that is not open, with errno set.
Descriptor accept_from(int listener);

// Connects, and both sides prove that they belong to the job. What fails because somebody else is in the way
// (the connection ends before the proof, or takes too long) is tried again until the deadline. Throws
// DistNetworkError, and what `check` throws, which is asked now and then; it may be empty.
Descriptor dial(const Contact& there, const ProcessId& self, Deadline deadline, const LossCheck& check);

// For connections that groups use: without delay, with a fitting buffer, and kept alive.
void prepare(int socket);

}  // namespace dlaunch
