// Unix sockets between the processes of one host (more precisely: of one network namespace).
//
// Their names are in the abstract namespace: such a socket has no file, and it is gone with its process. Both
// sides prove that they belong to the job, as on a TCP connection (handshake.h).
#pragma once

#include "dlaunch/backend.h"
#include "runtime/sockets/descriptor.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

// Listens for the other processes of this host. Not open: they cannot reach this one.
Descriptor listen_on_host(const ProcessId& id);

// Connects with a process that listens so. Not open: it is not on this host, does not prove itself, or has
// not answered before the deadline. Calls `check` now and then, which may be empty. Throws what `check`
// throws.
Descriptor dial_on_host(const Contact& there, const ProcessId& self, Deadline deadline,
                        const LossCheck& check);

}  // namespace dlaunch::internal
