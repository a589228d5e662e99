#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// The `values` of rank `root` become the reduction of all ranks' values; the other ranks' values stay
// unchanged. The same bits whatever the timing. REQUIRES: !why_not_allowed(dtype, reduction.op).
void reduce_to_root(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction,
                    int root);

}  // namespace dlaunch::internal
