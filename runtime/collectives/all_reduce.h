#pragma once

#include <cstddef>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"

namespace dlaunch {

// Every rank's `values` become the reduction of all of them, with the same bits on every rank, independent of
// timing. REQUIRES: !why_not_allowed(dtype, reduction.op).
void all_reduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction);

// Recursive doubling, for short values, in two parts. Several on one Transport may have begun before the
// first is finished, in the same order on all ranks.
class ShortAllReduce {
 public:
  // More than one rank, and values that go in one message.
  static bool suits(int ranks, std::size_t bytes) { return ranks > 1 && bytes <= Exchange::eager_limit; }

  // REQUIRES: suits(exchange.size(), values.size()), !is_integer_mean(dtype, reduction), and as all_reduce.
  ShortAllReduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction);

  void begin();  // sends what needs nobody else's values
  void finish();

 private:
  [[nodiscard]] int partner(int bit) const;

  Exchange& exchange_;
  const std::span<std::byte> values_;
  const DType dtype_;
  const Reduction reduction_;
  const int power_;   // ranks that are left after merging
  const int merged_;  // pairs among the first 2 * merged_ ranks
  const int place_;   // among the ranks that are left
};

// The other algorithms, for the tests; all_reduce chooses by size. They only combine: no factor, no average.
// REQUIRES of the first: exchange.size() is a power of two.
void all_reduce_by_halving(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);
void all_reduce_by_ring(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);

}  // namespace dlaunch
