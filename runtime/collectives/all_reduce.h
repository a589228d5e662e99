#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"

namespace dlaunch {

// Every rank's `values` become the reduction of all of them, with the same bits on every rank, independent of
// timing. REQUIRES: !why_not_allowed(dtype, reduction.op).
void all_reduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction);

// The algorithms, for the tests; all_reduce chooses by size. They only combine: no factor, no average.
// REQUIRES of the first: values.size() <= Exchange::eager_limit; of the second: exchange.size() is a power of
// two.
void all_reduce_by_doubling(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);
void all_reduce_by_halving(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);
void all_reduce_by_ring(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);

}  // namespace dlaunch
