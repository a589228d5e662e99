// The shape of the network, and where each layer's parameters lie in the one array that holds them all.
#pragma once

#include <array>
#include <cstddef>

#include "examples/train_mnist/idx.h"

namespace mnist {

// Widths of the layers, input first: {784, 128, 64, 10} has two hidden layers of 128 and 64.
using Widths = std::array<std::size_t, 4>;

inline constexpr Widths network_widths{pixels_per_image, 256, 128, classes};

struct Layer {
  std::size_t inputs;
  std::size_t outputs;
  std::size_t weights;  // where they begin: `inputs` rows of `outputs` weights
  std::size_t biases;   // where they begin: right behind the weights
};

constexpr std::array<Layer, 3> layers_of(const Widths& widths) {
  std::array<Layer, 3> layers{};
  std::size_t next = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::size_t weights = widths[i] * widths[i + 1];
    layers[i] = {.inputs = widths[i], .outputs = widths[i + 1], .weights = next, .biases = next + weights};
    next += weights + widths[i + 1];
  }
  return layers;
}

constexpr std::size_t parameter_count(const Widths& widths) {
  const Layer last = layers_of(widths).back();
  return last.biases + last.outputs;
}

}  // namespace mnist
