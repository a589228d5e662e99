// How the ranks of a group on one host get its shared memory.
//
// Each endpoint listens at a Unix socket, too (host_socket.h). A rank asks the ranks below its own, the
// lowest first, until one answers: that one runs on this host (more precisely: in this network namespace),
// has made the group's memory, and hands it over as a descriptor. A rank that finds none makes the memory
// itself. So whether two ranks can share memory is found by doing it. Both sides prove that they belong to
// the job, as on a TCP connection (handshake.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "dlaunch/backend.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Asks the process for the memory of its group `there.context_id`. Not open: it is not on this host, has no
// memory for it, or has not answered for some seconds. Calls `check` now and then. Throws what `check`
// throws.
Descriptor request_memory(const Contact& there, const ProcessId& self, Deadline deadline,
                          const LossCheck& check);

// The other side: connections whose peers have proved themselves and will ask. Does not block.
class MemoryRequests {
 public:
  static constexpr std::size_t limit = 1024;

  // Drops the oldest if there are too many.
  void add(std::uint64_t token, Descriptor socket);
  [[nodiscard]] bool has(std::uint64_t token) const { return all_.contains(token); }
  // The peer has sent something: answers with the group's descriptor, which `file_of` returns (-1: none), and
  // closes the connection.
  void answer(std::uint64_t token, const std::function<int(ContextId)>& file_of);

 private:
  std::map<std::uint64_t, Descriptor> all_;  // by token, the oldest first
};

}  // namespace dlaunch::internal
