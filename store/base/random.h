// Randomness that nobody can guess, from the kernel. Not std::random_device: libstdc++'s asks the processor
// what it can, and in a virtual machine each such question costs some 20 us.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace dlaunch {

// Blocks only where the machine has just booted. Any thread.
std::string random_bytes(std::size_t count);
std::uint64_t random_u64();

}  // namespace dlaunch
