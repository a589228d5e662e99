// Limits of this process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "store/base/result.h"
#include "store/server/port_limits.h"

namespace dlaunch::launcher {

// Checks that enough files may be opened for `workers` workers and connections to `nodes` nodes, before
// anything is started.
Result<void> check_descriptor_limit(int workers, int nodes);

// The same for a dlaunch that starts a job on `hosts` hosts.
Result<void> check_descriptor_limit_for_hosts(std::size_t hosts);

// The machine's memory, or the lower limit of this process (ulimit -v, ulimit -d).
std::uint64_t allowed_memory();

// The default limit of a store's content: 16 GiB, or half of the memory that this process may use. The store
// needs the other half besides its content.
std::uint64_t usual_store_total();

// The limits for unauthenticated connections to a store's port, in a process with `workers` workers and
// `nodes` nodes: descriptors stay free for those, and for probes of /healthz.
PortLimits port_limits(int workers, int nodes);

// Raises the soft limit of open files to the hard limit. Each worker needs two pipes and, with a store, two
// connections (PyTorch 1.13): more than the usual soft limit at scale.
void raise_descriptor_limit();

}  // namespace dlaunch::launcher
