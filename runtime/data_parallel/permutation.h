// Random orders that are the same on every machine, and in other programs: both are defined by the Mersenne
// twister, which the C++ standard fixes to the last bit, and by how its numbers are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dlaunch::internal {

// torch.randperm(count) with a CPU generator after manual_seed(seed); from UINT32_MAX / 20 on PyTorch uses
// another algorithm. REQUIRES: count < 2^32.
std::vector<std::size_t> torch_permutation(std::size_t count, std::uint64_t seed);

// range(count) after random.Random(seed).shuffle() of Python. REQUIRES: count < 2^32.
std::vector<std::size_t> python_permutation(std::size_t count, std::uint64_t seed);

}  // namespace dlaunch::internal
