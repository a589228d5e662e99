// In which order the values of the ranks are combined to one. Pure.
//
// Floating-point sums depend on the order. Ranks that share memory could use any; they use the one in which
// the algorithms over messages (runtime/collectives/) combine, so that a job computes the same bits however
// its ranks are placed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/reduce/reduce.h"

namespace dlaunch::internal {

class ReductionOrder {
 public:
  // ((v[first] + v[first+1]) + v[first+2]) ..., round the ring: a ring.
  static ReductionOrder chain(std::size_t ranks, std::size_t first);
  // Neighbours first, then pairs of neighbours: recursive doubling. If the number of ranks is not a power of
  // two, the first ones are merged in pairs before.
  static ReductionOrder doubling(std::size_t ranks);
  // Ranks at the greatest distance first: recursive halving. REQUIRES: a power of two.
  static ReductionOrder halving(std::size_t ranks);
  // A binomial tree, counted from the root: each rank adds its children, the nearest first.
  static ReductionOrder binomial(std::size_t ranks, std::size_t root);

  // out[i] = the combination of values[rank][i]. `out` may be one of the values; other overlaps are not
  // allowed. REQUIRES: more than one rank, one entry of `values` for each.
  void run(ReduceKernel combine, std::size_t element, std::span<const std::byte* const> values,
           std::byte* out, std::size_t count) const;

 private:
  // Numbers below the number of ranks are ranks, the others temporary results.
  struct Step {
    std::uint16_t low;
    std::uint16_t high;
    std::uint16_t out;
  };

  explicit ReductionOrder(std::size_t ranks) : ranks_(static_cast<std::uint16_t>(ranks)) {}
  std::uint16_t add(std::uint16_t low, std::uint16_t high);
  std::uint16_t take_temporary();
  void release(std::uint16_t number);
  std::uint16_t add_doubling(std::size_t place, std::size_t places, std::size_t merged);
  std::uint16_t add_halving(std::size_t rank, std::size_t distance);
  std::uint16_t add_binomial(std::size_t place, std::size_t below, std::size_t root);

  const std::uint16_t ranks_;
  std::vector<Step> steps_;
  std::vector<std::uint16_t> free_;  // temporary results that are no longer needed
  std::uint16_t temporaries_ = 0;
};

// The orders of one group, each made when it is first used.
class ReductionOrders {
 public:
  const ReductionOrder& doubling(std::size_t ranks) {
    if (!doubling_) doubling_.emplace(ReductionOrder::doubling(ranks));
    return *doubling_;
  }
  const ReductionOrder& halving(std::size_t ranks) {
    if (!halving_) halving_.emplace(ReductionOrder::halving(ranks));
    return *halving_;
  }
  const ReductionOrder& chain(std::size_t ranks, std::size_t first) {
    const auto found = chains_.find(first % ranks);
    if (found != chains_.end()) return found->second;
    return chains_.emplace(first % ranks, ReductionOrder::chain(ranks, first)).first->second;
  }
  const ReductionOrder& binomial(std::size_t ranks, std::size_t root) {
    const auto found = binomials_.find(root);
    if (found != binomials_.end()) return found->second;
    return binomials_.emplace(root, ReductionOrder::binomial(ranks, root)).first->second;
  }

 private:
  std::optional<ReductionOrder> doubling_;
  std::optional<ReductionOrder> halving_;
  std::map<std::size_t, ReductionOrder> chains_;     // by the first rank
  std::map<std::size_t, ReductionOrder> binomials_;  // by the root
};

}  // namespace dlaunch::internal
