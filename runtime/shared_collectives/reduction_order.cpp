#include "runtime/shared_collectives/reduction_order.h"

#include <algorithm>
#include <array>
#include <bit>

namespace dlaunch::internal {

namespace {

// Temporary results stay in the first cache.
constexpr std::size_t block_size = 4096;
// Enough for 2^14 ranks: a tree needs one for each level.
constexpr std::size_t most_temporaries = 16;

}  // namespace

std::uint16_t ReductionOrder::take_temporary() {
  if (free_.empty()) return static_cast<std::uint16_t>(ranks_ + temporaries_++);
  const std::uint16_t number = free_.back();
  free_.pop_back();
  return number;
}

void ReductionOrder::release(std::uint16_t number) {
  if (number >= ranks_) free_.push_back(number);
}

std::uint16_t ReductionOrder::add(std::uint16_t low, std::uint16_t high) {
  release(low);
  release(high);
  const std::uint16_t out = take_temporary();
  steps_.push_back({low, high, out});
  return out;
}

ReductionOrder ReductionOrder::chain(std::size_t ranks, std::size_t first) {
  ReductionOrder order(ranks);
  auto sum = static_cast<std::uint16_t>(first % ranks);
  for (std::size_t i = 1; i < ranks; ++i) {
    sum = order.add(sum, static_cast<std::uint16_t>((first + i) % ranks));
  }
  return order;
}

ReductionOrder ReductionOrder::doubling(std::size_t ranks) {
  ReductionOrder order(ranks);
  const std::size_t places = std::bit_floor(ranks);
  order.add_doubling(0, places, ranks - places);
  return order;
}

std::uint16_t ReductionOrder::add_doubling(std::size_t place, std::size_t places, std::size_t merged) {
  if (places == 1 && place >= merged) return static_cast<std::uint16_t>(place + merged);
  if (places == 1) {
    return add(static_cast<std::uint16_t>(2 * place), static_cast<std::uint16_t>(2 * place + 1));
  }
  const std::uint16_t low = add_doubling(place, places / 2, merged);
  const std::uint16_t high = add_doubling(place + places / 2, places / 2, merged);
  return add(low, high);
}

ReductionOrder ReductionOrder::halving(std::size_t ranks) {
  ReductionOrder order(ranks);
  order.add_halving(0, 1);
  return order;
}

// What `rank` has after the round of this distance; the rounds begin with the greatest.
std::uint16_t ReductionOrder::add_halving(std::size_t rank, std::size_t distance) {
  if (distance == ranks_) return static_cast<std::uint16_t>(rank);
  const std::uint16_t low = add_halving(rank, 2 * distance);
  const std::uint16_t high = add_halving(rank + distance, 2 * distance);
  return add(low, high);
}

ReductionOrder ReductionOrder::binomial(std::size_t ranks, std::size_t root) {
  ReductionOrder order(ranks);
  order.add_binomial(0, std::bit_ceil(ranks), root);
  return order;
}

std::uint16_t ReductionOrder::add_binomial(std::size_t place, std::size_t below, std::size_t root) {
  auto sum = static_cast<std::uint16_t>((place + root) % ranks_);
  for (std::size_t bit = 1; bit < below && place + bit < ranks_; bit *= 2) {
    sum = add(sum, add_binomial(place + bit, bit, root));
  }
  return sum;
}

void ReductionOrder::run(ReduceKernel combine, std::size_t element, std::span<const std::byte* const> values,
                         std::byte* out, std::size_t count) const {
  if (steps_.size() == 1) return combine(out, values[steps_[0].low], values[steps_[0].high], count);
  alignas(64) std::array<std::array<std::byte, block_size>, most_temporaries> temporaries;
  const std::size_t most = block_size / element;
  for (std::size_t begin = 0; begin < count; begin += most) {
    const std::size_t length = std::min(most, count - begin);
    const auto place = [&](std::uint16_t number) -> const std::byte* {
      if (number < ranks_) return values[number] + begin * element;
      return temporaries[static_cast<std::size_t>(number - ranks_)].data();
    };
    // Only the last step writes to `out`, which may be an input.
    for (const Step& step : steps_) {
      std::byte* const target = &step == &steps_.back()
                                    ? out + begin * element
                                    : temporaries[static_cast<std::size_t>(step.out - ranks_)].data();
      combine(target, place(step.low), place(step.high), length);
    }
  }
}

}  // namespace dlaunch::internal
