// Limits of this process.
#pragma once

#include <cstdint>

#include "store/base/result.h"
#include "store/server/port_limits.h"

namespace dlaunch::launcher {

// Whether enough files may be opened to start `workers` and to talk to `nodes` in all. Asked before anything
// is begun, which could only fail half-way.
Result<void> check_descriptor_limit(int workers, int nodes);

// Of the machine's memory, what limits of this process (ulimit -v, ulimit -d) leave.
std::uint64_t allowed_memory();

// What all clients of a store together may make it hold if nothing else is asked for: 16 GiB, or half of the
// memory that this process may use. The other half is for what a store needs beside its content.
std::uint64_t usual_store_total();

// What the port of a store takes from strangers, in a process that starts `workers` and talks to `nodes` in
// all: descriptors stay free for them, and for probers of /healthz.
PortLimits port_limits(int workers, int nodes);

// As many descriptors as may be had. Two pipes a worker and, with a store, two connections each (PyTorch
// 1.13): more than the usual soft limit at scale.
void raise_descriptor_limit();

}  // namespace dlaunch::launcher
