// A model for tests of the reducer: parameters, and gradients whose values are known.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/data_parallel.h"

namespace dlaunch::test {

struct ReducedModel {
  std::vector<std::vector<float>> values;

  // Of these sizes; each value is `fill`.
  explicit ReducedModel(const std::vector<std::size_t>& sizes, float fill = 0) {
    for (const std::size_t size : sizes) values.emplace_back(size, fill);
  }

  [[nodiscard]] std::vector<Parameter> parameters() {
    std::vector<Parameter> result;
    for (std::size_t i = 0; i < values.size(); ++i)
      result.push_back({.name = "layer" + std::to_string(i), .value = Tensor::of(values[i])});
    return result;
  }
};

// The host sees the end of a reduction on the device some time after the device.
inline std::uint64_t steps_when_ended(const std::function<ReducerStatistics()>& statistics,
                                      std::uint64_t wanted) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (statistics().steps < wanted && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  return statistics().steps;
}

inline std::span<float> floats(const Tensor& tensor) {
  return {static_cast<float*>(tensor.data()), tensor.numel()};
}

// What rank `rank` computes for a parameter in a step: not symmetric, so that mixed up gradients are seen.
inline float gradient_value(int rank, std::size_t parameter, std::size_t element, int step) {
  return static_cast<float>(rank + 1) * static_cast<float>(10 * parameter + element + 1) +
         static_cast<float>(100 * step);
}

// Its mean over ranks 0 to ranks - 1: exact in float if ranks is a power of two.
inline float mean_value(int ranks, std::size_t parameter, std::size_t element, int step) {
  return static_cast<float>(ranks + 1) / 2 * static_cast<float>(10 * parameter + element + 1) +
         static_cast<float>(100 * step);
}

inline void write_gradient(std::span<float> gradient, int rank, std::size_t parameter, int step) {
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_value(rank, parameter, i, step);
}

// How many elements differ from the mean.
inline std::size_t wrong_elements(std::span<const float> gradient, int ranks, std::size_t parameter,
                                  int step) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i)
    if (gradient[i] != mean_value(ranks, parameter, i, step)) ++wrong;
  return wrong;
}

// 0 to count - 1, in an order that the seed gives.
inline std::vector<std::size_t> shuffled(std::size_t count, unsigned seed) {
  std::vector<std::size_t> order(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = i;
  std::mt19937 random(seed);
  std::ranges::shuffle(order, random);
  return order;
}

}  // namespace dlaunch::test
