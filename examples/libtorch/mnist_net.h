// The convolutional net of PyTorch's MNIST example and tutorials, and its data.
#pragma once

#include <torch/torch.h>

#include <cstring>
#include <string>
#include <vector>

#include "idx.h"

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv1(register_module("conv1", torch::nn::Conv2d(1, 10, 5))),
        conv2(register_module("conv2", torch::nn::Conv2d(10, 20, 5))),
        conv2_drop(register_module("conv2_drop", torch::nn::Dropout2d())),
        fc1(register_module("fc1", torch::nn::Linear(320, 50))),
        fc2(register_module("fc2", torch::nn::Linear(50, 10))) {}

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop(conv2(x)), 2));
    x = torch::relu(fc1(x.view({-1, 320})));
    x = torch::dropout(x, 0.5, is_training());
    return torch::log_softmax(fc2(x), 1);
  }

  torch::nn::Conv2d conv1;
  torch::nn::Conv2d conv2;
  torch::nn::Dropout2d conv2_drop;
  torch::nn::Linear fc1;
  torch::nn::Linear fc2;
};
TORCH_MODULE(Net);

struct Images {
  torch::Tensor pixels;  // [count, 1, 28, 28], normalised
  torch::Tensor labels;  // [count]

  // Those at `indices`.
  [[nodiscard]] Images at(const std::vector<std::size_t>& indices) const {
    const torch::Tensor index =
        torch::tensor(std::vector<std::int64_t>(indices.begin(), indices.end()), torch::kLong);
    return {pixels.index_select(0, index), labels.index_select(0, index)};
  }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(labels.size(0)); }
};

inline Images images_of(const mnist::Dataset& data) {
  const auto count = static_cast<std::int64_t>(data.count());
  torch::Tensor pixels = torch::empty({count, 1, 28, 28}, torch::kUInt8);
  std::memcpy(pixels.data_ptr(), data.pixels.data(), data.pixels.size());
  torch::Tensor labels = torch::empty({count}, torch::kUInt8);
  std::memcpy(labels.data_ptr(), data.labels.data(), data.labels.size());
  return {(pixels.to(torch::kFloat) / 255 - 0.1307) / 0.3081, labels.to(torch::kLong)};
}
