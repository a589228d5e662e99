#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"
#include "runtime/reduce/integer_avg.h"

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

// The average of integers, whose parts `reduce` adds: a reduce_scatter in place.
template <class Reduce>
void reduce_scatter_of_means(std::span<std::byte> output, std::span<const std::span<const std::byte>> inputs,
                             DType dtype, int ranks, std::size_t rank, const Reduce& reduce) {
  std::vector<std::vector<std::int64_t>> parts;
  parts.reserve(inputs.size());
  for (const std::span<const std::byte> input : inputs) parts.push_back(avg_parts(input, dtype, ranks));
  std::vector<std::span<const std::byte>> wide;
  wide.reserve(parts.size());
  for (const std::vector<std::int64_t>& block : parts) wide.push_back(std::as_bytes(std::span(block)));
  std::vector<std::int64_t>& own = parts[rank];
  reduce(std::as_writable_bytes(std::span(own)), wide);
  store_avg(output, dtype, own, ranks);
}

}  // namespace dlaunch::internal
