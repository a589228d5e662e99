// Element-wise arithmetic for the CPU: what a collective does with two blocks of the same length.
// Pure: no I/O, no state; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/reduce_op.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// Why the combination is not supported, as a sentence; nothing if it is allowed.
std::optional<std::string> why_not_allowed(DType dtype, ReduceOp op);

// out[i] = low[i] op high[i] for `count` elements. `out` may be `low` or
// `high`; other overlaps are not allowed.
//
// The operands have positions, although the operations commute: if two NaNs, or +0 and -0, meet, the result
// depends on which comes first. Callers pass the block of the lower ranks as `low`, so that two ranks that
// compute the same element get the same bits.
using ReduceKernel = void (*)(std::byte* out, const std::byte* low, const std::byte* high, std::size_t count);

// REQUIRES: !why_not_allowed(dtype, op). For avg and premul_sum this is the sum; prepare() does the rest, and
// integer_avg.h the avg of integers.
ReduceKernel reduce_kernel(DType dtype, ReduceOp op);

// Whether prepare() would change anything.
bool needs_preparing(DType dtype, const Reduction& reduction);

// What prepare() does for the two operations that need it.
void scale(std::span<std::byte> values, DType dtype, const Reduction& reduction, int world_size);

// Call it on each rank's own values before the first kernel. premul_sum multiplies with its factor; avg of
// floating point divides by the world size here and not at the end, since the sum may overflow although the
// average does not.
inline void prepare(std::span<std::byte> values, DType dtype, const Reduction& reduction, int world_size) {
  if (reduction.op == ReduceOp::premul_sum || reduction.op == ReduceOp::avg)
    scale(values, dtype, reduction, world_size);
}

}  // namespace dlaunch::internal
