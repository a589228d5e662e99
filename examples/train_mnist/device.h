// Where the arithmetic of the training runs: the parts of a step, which each kind of device carries out.
//
// A device has the data sets and its own copy of the parameters and the velocity; the training's state on the
// host is brought there once, and fetched after each epoch. One thread uses a device. Every call throws
// std::runtime_error if the device fails.
#pragma once

#include <dlaunch/tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mnist {

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // "cpu"; of a GPU, number and model: "cuda:0, NVIDIA H100".
  [[nodiscard]] virtual std::string name() const = 0;

  // Parameters and velocity, parameter_count(network_widths) of each: from the host and to the host.
  virtual void load(std::span<const float> parameters, std::span<const float> velocity) = 0;
  virtual void fetch(std::span<float> parameters, std::span<float> velocity) = 0;

  // The gradient of the loss summed over these training images, which may be none; the loss is added to that
  // of the steps before. Requires every index < the number of training images.
  virtual void compute_gradients(std::span<const std::uint32_t> images) = 0;
  // What compute_gradients has computed, in the order of the parameters; valid as long as the device is. On a
  // GPU it is ready for what follows in the current stream of libdlaunch (dlaunch/stream.h).
  [[nodiscard]] virtual dlaunch::Tensor gradients() = 0;
  // One step by `scale` times the gradients; see sgd_step.
  virtual void step(float scale, float rate) = 0;

  // The sum of the losses since the last call.
  virtual double take_loss() = 0;
  // How many of the test images [begin, end) are named rightly. Requires begin <= end <= their number.
  virtual std::size_t count_correct(std::size_t begin, std::size_t end) = 0;
};

}  // namespace mnist
