#include "examples/train_mnist/network.h"

#include <algorithm>
#include <cmath>
#include <random>

// Weights are stored row by row, one row per *input*. Every inner loop below then runs over a row:
// consecutive floats that the compiler turns into vector instructions. And a row whose input is zero is
// skipped whole: four of five pixels are blank, and ReLU silences half of the hidden units, so most of the
// work is never done.

namespace mnist {
namespace {

// out += x * row
void add_scaled(float* __restrict out, const float* __restrict row, float x, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) out[i] += x * row[i];
}

// The sum of a[i] * b[i]. Eight partial sums, because the compiler may not reorder float additions on its
// own.
float dot(const float* __restrict a, const float* __restrict b, std::size_t n) {
  std::array<float, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= n; i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float total = ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// Turns the scores into the derivatives of the loss by them (probability minus truth); returns the loss.
double softmax_loss(std::span<const float> scores, std::size_t label, std::span<float> deltas) {
  const float highest = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    deltas[i] = std::exp(scores[i] - highest);  // the highest becomes 1: nothing overflows
    sum += deltas[i];
  }
  for (float& delta : deltas) delta /= sum;
  const double loss = std::log(static_cast<double>(sum)) + static_cast<double>(highest - scores[label]);
  deltas[label] -= 1;
  return loss;
}

}  // namespace

Network::Network(const Widths& widths) : layers_(layers_of(widths)), parameters_(parameter_count(widths)) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    activations_[i].resize(widths[i]);
    deltas_[i].resize(widths[i]);
  }
}

void Network::initialise(std::uint64_t seed) {
  std::fill(parameters_.begin(), parameters_.end(), 0.0F);
  std::mt19937_64 random(seed);
  for (const Layer& layer : layers_) {
    const float limit = std::sqrt(6.0F / static_cast<float>(layer.inputs));
    for (float& weight : std::span(parameters_).subspan(layer.weights, layer.inputs * layer.outputs)) {
      // 24 random bits, as many as a float holds exactly: the same number with every standard library.
      const float between_minus_one_and_one = static_cast<float>(random() >> 40U) * 0x1p-23F - 1.0F;
      weight = limit * between_minus_one_and_one;
    }
  }
}

void Network::forward(std::span<const std::uint8_t> image) {
  for (std::size_t i = 0; i < image.size(); ++i)
    activations_[0][i] = static_cast<float>(image[i]) * (1.0F / 255.0F);

  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const std::vector<float>& in = activations_[l];
    std::vector<float>& out = activations_[l + 1];
    const float* weights = parameters_.data() + layer.weights;

    std::copy_n(parameters_.data() + layer.biases, layer.outputs, out.data());
    for (std::size_t i = 0; i < layer.inputs; ++i)
      if (in[i] != 0) add_scaled(out.data(), weights + i * layer.outputs, in[i], layer.outputs);
    const bool hidden = l + 1 < layers_.size();
    if (hidden)
      for (float& value : out) value = std::max(value, 0.0F);
  }
}

void Network::backward(std::span<float> gradients) {
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const std::vector<float>& in = activations_[l];
    const std::vector<float>& out_delta = deltas_[l + 1];
    std::vector<float>& in_delta = deltas_[l];

    add_scaled(gradients.data() + layer.biases, out_delta.data(), 1.0F, layer.outputs);
    for (std::size_t i = 0; i < layer.inputs; ++i) {
      // A zero input gets no blame in either direction: its weights had no effect, and ReLU is flat there.
      in_delta[i] = 0;
      if (in[i] == 0) continue;
      const std::size_t row = layer.weights + i * layer.outputs;
      add_scaled(gradients.data() + row, out_delta.data(), in[i], layer.outputs);
      if (l > 0) in_delta[i] = dot(parameters_.data() + row, out_delta.data(), layer.outputs);
    }
  }
}

double Network::add_gradients(const Dataset& data, std::span<const std::uint32_t> indices,
                              std::span<float> gradients) {
  double loss = 0;
  for (const std::uint32_t index : indices) {
    forward(data.image(index));
    loss += softmax_loss(activations_.back(), data.labels[index], deltas_.back());
    backward(gradients);
  }
  return loss;
}

std::size_t Network::count_correct(const Dataset& data, std::size_t begin, std::size_t end) {
  std::size_t correct = 0;
  for (std::size_t i = begin; i < end; ++i) {
    forward(data.image(i));
    const std::vector<float>& scores = activations_.back();
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    if (static_cast<std::size_t>(best) == data.labels[i]) ++correct;
  }
  return correct;
}

}  // namespace mnist
