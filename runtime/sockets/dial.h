// Sockets: how a process listens, and how it connects to another one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/rendezvous/loss_propagation.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

struct Listener {
  Descriptor socket;
  std::uint16_t port;
};
// Listens on a free port of `address` (numeric). Throws DistNetworkError.
Listener listen_at(const std::string& address);

// If no connection is waiting: a descriptor that is not open, with errno set.
Descriptor accept_from(int listener);

// Connects; both sides prove that they belong to the job. If the connection ends before the proof, or the
// proof takes too long (a foreign process may hold the port), tries again until the deadline. Calls `check`
// now and then, which may be empty. A refused connection is an error after `patience`, in which `check` may
// find the cause. Throws DistNetworkError, and what `check` throws.
Descriptor dial(const Contact& there, const ProcessId& self, Deadline deadline, const LossCheck& check,
                std::chrono::milliseconds patience = loss_propagation_delay);

// For the connections of groups: no delay, a fitting buffer, keepalive.
void prepare(int socket);

}  // namespace dlaunch::internal
