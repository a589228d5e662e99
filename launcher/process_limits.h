// Limits of this process.
#pragma once

#include "store/base/result.h"

namespace dlaunch::launcher {

// Whether enough files may be opened to start `workers` and to talk to `nodes` in all. Asked before anything
// is begun, which could only fail half-way.
Result<void> check_descriptor_limit(int workers, int nodes);

// As many descriptors as may be had. Two pipes a worker and, with a store, two connections each (PyTorch
// 1.13): more than the usual soft limit at scale.
void raise_descriptor_limit();

}  // namespace dlaunch::launcher
