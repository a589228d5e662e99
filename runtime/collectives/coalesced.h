#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// all_reduce of each of `tensors`, as one call. Short ones travel together.
// REQUIRES: one dtype, !why_not_allowed(dtype, reduction.op), the same sizes on all ranks.
void all_reduce_coalesced(Exchange& exchange, std::span<const std::span<std::byte>> tensors, DType dtype,
                          const Reduction& reduction);

}  // namespace dlaunch::internal
