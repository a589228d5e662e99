// The training on the processor, by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/train_mnist/device.h"
#include "examples/train_mnist/idx.h"
#include "examples/train_mnist/network.h"

namespace mnist {

class CpuDevice final : public Device {
 public:
  // The data sets must outlive it.
  CpuDevice(const Dataset& train, const Dataset& test) : train_(train), test_(test) {}

  [[nodiscard]] std::string name() const override { return "cpu"; }
  void load(std::span<const float> parameters, std::span<const float> velocity) override;
  void fetch(std::span<float> parameters, std::span<float> velocity) override;
  void compute_gradients(std::span<const std::uint32_t> images) override;
  [[nodiscard]] dlaunch::Tensor gradients() override { return dlaunch::Tensor::of(gradients_); }
  void step(float scale, float rate) override;
  double take_loss() override;
  std::size_t count_correct(std::size_t begin, std::size_t end) override;

 private:
  const Dataset& train_;
  const Dataset& test_;
  Network network_{network_widths};
  std::vector<float> velocity_ = std::vector<float>(parameter_count(network_widths));
  std::vector<float> gradients_ = std::vector<float>(parameter_count(network_widths));
  double loss_ = 0;
};

}  // namespace mnist
