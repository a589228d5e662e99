#include "examples/train_mnist/shard.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

namespace mnist {

std::vector<std::uint32_t> epoch_order(std::size_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  // std::seed_seq and mt19937_64 are fixed by the standard to the last bit; std::shuffle is not, so two
  // standard libraries in one job would train on different batches. Hence Fisher and Yates by hand.
  std::seed_seq mixed{seed & 0xffffffffU, seed >> 32U, epoch & 0xffffffffU, epoch >> 32U};
  std::mt19937_64 random(mixed);
  for (std::size_t left = count; left > 1; --left) {
    const std::size_t chosen = random() % left;  // the bias is below 2^-40 for any set that fits in memory
    std::swap(order[chosen], order[left - 1]);
  }
  return order;
}

std::span<const std::uint32_t> batch_of(std::span<const std::uint32_t> order, std::size_t step,
                                        std::size_t batch_size) {
  const std::size_t begin = step * batch_size;
  return order.subspan(begin, std::min(batch_size, order.size() - begin));
}

}  // namespace mnist
