#include "examples/train_mnist/cpu_device.h"

#include <algorithm>
#include <utility>

#include "examples/train_mnist/sgd.h"

namespace mnist {

void CpuDevice::load(std::span<const float> parameters, std::span<const float> velocity) {
  std::copy(parameters.begin(), parameters.end(), network_.parameters().begin());
  std::copy(velocity.begin(), velocity.end(), velocity_.begin());
}

void CpuDevice::fetch(std::span<float> parameters, std::span<float> velocity) {
  std::copy(network_.parameters().begin(), network_.parameters().end(), parameters.begin());
  std::copy(velocity_.begin(), velocity_.end(), velocity.begin());
}

void CpuDevice::compute_gradients(std::span<const std::uint32_t> images) {
  std::fill(gradients_.begin(), gradients_.end(), 0.0F);
  loss_ += network_.add_gradients(train_, images, gradients_);
}

void CpuDevice::step(float scale, float rate) {
  sgd_step(network_.parameters(), velocity_, gradients_, scale, rate);
}

double CpuDevice::take_loss() { return std::exchange(loss_, 0); }

std::size_t CpuDevice::count_correct(std::size_t begin, std::size_t end) {
  return network_.count_correct(test_, begin, end);
}

}  // namespace mnist
