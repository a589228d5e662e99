// How the two ends of a Unix socket come to share memory: the side that has connected offers it, and the
// other one answers whether it can use it. So whether two workers can share memory is found by doing it.
#pragma once

#include <memory>

#include "dlaunch/backend.h"
#include "runtime/shared_memory/byte_rings.h"
#include "runtime/sockets/descriptor.h"

namespace dlaunch::internal {

// What a side has then. The eventfds are for those that sleep elsewhere (byte_rings.h): each side waits for
// its own in an epoll (edge-triggered; nobody reads it), and writes to the other's.
struct SharedRings {
  std::unique_ptr<ByteRings> rings;
  Descriptor own_event;
  Descriptor other_event;
};

// The first thing on the connection. Null: this worker does not want it, cannot make it, or the other one
// does not take it; then the socket carries the messages. Calls `check` now and then. Throws what `check`
// throws, and DistNetworkError without an answer: the other side could take it later.
std::unique_ptr<SharedRings> offer_memory(int socket, bool is_wanted, Deadline deadline,
                                          const LossCheck& check);

// The other side. Does not block.
struct MemoryOffer {
  bool has_come = false;  // else: not yet, or the connection has ended; errno is EAGAIN or not
  std::unique_ptr<SharedRings> taken = {};
};
MemoryOffer take_memory_offer(int socket, bool is_wanted);

}  // namespace dlaunch::internal
