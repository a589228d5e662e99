#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// inputs[i] is for rank i: `output` becomes the reduction of every rank's inputs[rank()], with the same bits
// whatever the timing. The inputs stay unchanged, but `output` may be inputs[rank()].
// REQUIRES: one input for each rank, the same sizes on all ranks, output.size() == inputs[rank()].size(),
// and !why_not_allowed(dtype, reduction.op).
void reduce_scatter(Exchange& exchange, std::span<std::byte> output,
                    std::span<const std::span<const std::byte>> inputs, DType dtype,
                    const Reduction& reduction);

// The two algorithms, for the tests and for other collectives; reduce_scatter chooses by size. REQUIRES:
// size() > 1, !is_integer_avg(dtype, reduction); of the first also that no input is longer than
// Exchange::fragment_limit. The second uses the workspace's area 0.
void reduce_scatter_pairwise(Exchange& exchange, std::span<std::byte> output,
                             std::span<const std::span<const std::byte>> inputs, DType dtype,
                             const Reduction& reduction);
void reduce_scatter_by_ring(Exchange& exchange, std::span<std::byte> output,
                            std::span<const std::span<const std::byte>> inputs, DType dtype,
                            const Reduction& reduction);

}  // namespace dlaunch::internal
