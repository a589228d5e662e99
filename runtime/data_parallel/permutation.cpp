#include "runtime/data_parallel/permutation.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <span>
#include <utility>

namespace dlaunch::internal {

namespace {

std::vector<std::size_t> numbers_up_to(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  return numbers;
}

// Fills the twister's state from several words: init_by_array() of Matsumoto and Nishimura (2002), as Python
// calls it. std::mt19937 takes a state from such a class.
class InitByArray {
 public:
  using result_type = std::uint_least32_t;

  explicit InitByArray(std::span<const std::uint32_t> key) : key_(key.begin(), key.end()) {}

  // REQUIRES: a range of std::mt19937::state_size words.
  template <class Iterator>
  void generate(Iterator begin, Iterator end) {
    constexpr std::size_t n = std::mt19937::state_size;
    std::array<std::uint32_t, n> state{};
    state[0] = 19650218U;
    for (std::size_t i = 1; i < n; ++i)
      state[i] = 1812433253U * (state[i - 1] ^ (state[i - 1] >> 30U)) + static_cast<std::uint32_t>(i);
    std::size_t i = 1;
    const auto advance = [&] {
      if (++i < n) return;
      state[0] = state[n - 1];
      i = 1;
    };
    const auto mixed = [&](std::uint32_t factor) {
      return state[i] ^ ((state[i - 1] ^ (state[i - 1] >> 30U)) * factor);
    };
    for (std::size_t k = 0; k < std::max(n, key_.size()); ++k) {
      const std::size_t j = k % key_.size();
      state[i] = mixed(1664525U) + key_[j] + static_cast<std::uint32_t>(j);
      advance();
    }
    for (std::size_t k = 1; k < n; ++k) {
      state[i] = mixed(1566083941U) - static_cast<std::uint32_t>(i);
      advance();
    }
    state[0] = 0x80000000U;
    std::copy(state.begin(), state.begin() + (end - begin), begin);
  }

 private:
  std::vector<std::uint32_t> key_;
};

std::mt19937 python_generator(std::uint64_t seed) {
  const std::array words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)};
  InitByArray state{std::span(words).first(words[1] == 0 ? 1 : 2)};
  return std::mt19937(state);
}

}  // namespace

std::vector<std::size_t> torch_permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order = numbers_up_to(count);
  std::mt19937 random(static_cast<std::uint32_t>(seed));
  for (std::size_t i = 0; i + 1 < count; ++i) std::swap(order[i], order[i + random() % (count - i)]);
  return order;
}

std::vector<std::size_t> python_permutation(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order = numbers_up_to(count);
  std::mt19937 random = python_generator(seed);
  for (std::size_t i = count; i-- > 1;) {
    // The highest bits that can hold a number up to i, until one is not higher.
    const auto bits = static_cast<unsigned>(std::bit_width(i + 1));
    std::size_t chosen = 0;
    do {
      chosen = random() >> (32U - bits);
    } while (chosen > i);
    std::swap(order[i], order[chosen]);
  }
  return order;
}

}  // namespace dlaunch::internal
