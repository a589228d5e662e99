// Tensors cut into parts, and sums over several tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlaunch/tensor.h"
#include "runtime/base/short_array.h"

namespace dlaunch::internal {

// A view of `count` elements of the tensor from element `begin` on.
Tensor slice(const Tensor& whole, std::size_t begin, std::size_t count);

// REQUIRES: `parts` divides the number of elements.
ShortArray<Tensor> equal_parts(const Tensor& whole, std::size_t parts);

std::uint64_t bytes_of(std::span<const Tensor> tensors);
std::uint64_t elements_of(std::span<const Tensor> tensors);

}  // namespace dlaunch::internal
