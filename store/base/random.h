// Unpredictable randomness, from the kernel. Not std::random_device: libstdc++'s reads the processor's
// features, and in a virtual machine each such read costs some 20 us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Blocks only right after the machine has booted. Any thread.
std::string random_bytes(std::size_t count);
std::uint64_t random_u64();

}  // namespace dlaunch::store
