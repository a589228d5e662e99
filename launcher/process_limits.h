// Limits of this process.
#pragma once

namespace dlaunch::launcher {

// As many descriptors as may be had. Two pipes a worker and, with a store, two connections each (PyTorch
// 1.13): more than the usual soft limit at scale.
void raise_descriptor_limit();

}  // namespace dlaunch::launcher
