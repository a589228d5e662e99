// The network, written plainly: pixels, two hidden layers with ReLU, ten scores, softmax and cross-entropy.
//
// All parameters lie in one flat array, and so do their gradients: one all_reduce carries them, one loop
// updates them, one write saves them. The arithmetic is float, in a fixed order, without threads: the same
// parameters and images give the same bits every time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/layers.h"

namespace mnist {

class Network {
 public:
  // All parameters are zero until `initialise` or until the caller fills them in.
  explicit Network(const Widths& widths);

  // Weights and biases, layer after layer: first `inputs` rows of `outputs` weights, then `outputs` biases.
  // Valid as long as the network is.
  [[nodiscard]] std::span<float> parameters() { return parameters_; }
  [[nodiscard]] std::span<const float> parameters() const { return parameters_; }

  // Random weights (He's uniform range for ReLU) drawn from the seed, biases zero.
  void initialise(std::uint64_t seed);

  // Adds to `gradients` (as long as parameters(), same order) the gradient of the loss summed over the given
  // images, and returns that sum: the caller divides by the images of all ranks. Requires every index <
  // data.count().
  double add_gradients(const Dataset& data, std::span<const std::uint32_t> indices,
                       std::span<float> gradients);

  // How many of the images [begin, end) it names rightly. Requires begin <= end <= data.count().
  std::size_t count_correct(const Dataset& data, std::size_t begin, std::size_t end);

 private:
  // Fills activations_ from one image; the last ones are the scores of the ten digits.
  void forward(std::span<const std::uint8_t> image);
  // From activations_ and the derivatives of the scores in deltas_, adds up the gradients of all parameters.
  void backward(std::span<float> gradients);

  std::array<Layer, 3> layers_;
  std::vector<float> parameters_;
  std::array<std::vector<float>, 4> activations_;  // what goes into layer i; [3] are the scores
  std::array<std::vector<float>, 4> deltas_;  // the loss's derivatives by activations_; [0] is not needed
};

}  // namespace mnist
