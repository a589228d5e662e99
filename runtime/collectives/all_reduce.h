#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "dlaunch/backend.h"
#include "runtime/collectives/exchange.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

// Every rank's `values` become the reduction of all of them, with the same bits on every rank, independent of
// timing. REQUIRES: !why_not_allowed(dtype, reduction.op).
void all_reduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction);

// Which algorithm all_reduce uses for values of this length.
enum class AllReduceAlgorithm : std::uint8_t { doubling, halving, ring };
AllReduceAlgorithm all_reduce_algorithm(int ranks, std::size_t bytes);
// Into how many segments the ring cuts each rank's block of `count` elements.
std::size_t all_reduce_ring_segments(std::size_t ranks, std::size_t count, std::size_t element);

// Recursive doubling, for short values, in two parts. Several operations of one Transport may begin before
// the first is finished, in the same order on all ranks.
class ShortAllReduce {
 public:
  // More than one rank, and values for the eager channel. Two ranks have one round, in which they exchange no
  // more bytes than any other algorithm would: that is worth twice the additions for longer values, too.
  static bool suits(int ranks, std::size_t bytes) {
    constexpr std::size_t limit_of_two = std::size_t{256} * 1024;
    return ranks > 1 && bytes <= (ranks == 2 ? limit_of_two : Exchange::eager_limit);
  }

  // `area`: of the exchange's workspace; operations that have begun and not finished have different ones.
  // REQUIRES: suits(exchange.size(), values.size()), !is_integer_avg(dtype, reduction), and as all_reduce.
  ShortAllReduce(Exchange& exchange, std::span<std::byte> values, DType dtype, const Reduction& reduction,
                 std::size_t area = 0);

  void begin();  // sends what this rank can send alone
  void finish();

 private:
  // Exchange with the rank whose place differs in that bit. Long messages are under way after its start.
  struct Round {
    int bit;
    Exchange::Receive theirs;
    Exchange::Send ours;
  };

  [[nodiscard]] int partner(int bit) const;
  Round start_round(int bit);
  void finish_round(Round round);

  Exchange& exchange_;
  const std::span<std::byte> values_;
  const DType dtype_;
  const Reduction reduction_;
  const int power_;   // ranks that are left after merging
  const int merged_;  // pairs among the first 2 * merged_ ranks
  const int place_;   // among the ranks that are left
  const ReduceKernel combine_;
  const std::size_t count_;  // elements
  const std::span<std::byte> scratch_;
  std::optional<Round> first_;  // started, not finished; merged ranks have none
};

// The other algorithms, for the tests; all_reduce chooses by size. They only combine: no factor, no average.
// REQUIRES of the first: exchange.size() is a power of two.
void all_reduce_by_halving(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);
void all_reduce_by_ring(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op);

}  // namespace dlaunch::internal
