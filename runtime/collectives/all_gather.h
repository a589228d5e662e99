#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// outputs[i] becomes rank i's input. REQUIRES: one output for each rank, the same sizes on all ranks, and
// input.size() == outputs[rank].size(); `input` may be outputs[rank].
void all_gather(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::byte> input);

// The algorithms, for the tests; all_gather chooses by size. REQUIRES of the third: all outputs together are
// not longer than Exchange::fragment_limit.
void all_gather_by_ring(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                        std::span<const std::byte> input);
void all_gather_pairwise(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                         std::span<const std::byte> input);
void all_gather_by_doubling(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                            std::span<const std::byte> input);

}  // namespace dlaunch::internal
