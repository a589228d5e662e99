// Modules whose layers may be units, for tests of training with divided parameters.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "dlaunch/torch/fully_sharded.h"

// Outside of dlaunch, in which `torch` is dlaunch::torch.
namespace divided_nets {

using dlaunch::torch::forward_unit;

inline const std::vector<std::string> all_units = {"first", "middle", "last"};

// Three layers, the middle one of which runs several times or not at all, and a scale that belongs to none.
struct BlocksImpl : torch::nn::Module {
  explicit BlocksImpl(int width = 8) {
    first = register_module("first", torch::nn::Linear(4, width));
    middle = register_module("middle", torch::nn::Linear(width, width));
    last = register_module("last", torch::nn::Linear(width, 2));
    scale = register_parameter("scale", torch::ones({2}));
  }
  at::Tensor forward(const at::Tensor& input, int times = 2) {
    at::Tensor value = torch::tanh(forward_unit(first, input));
    for (int i = 0; i < times; ++i) value = value + torch::tanh(forward_unit(middle, value));
    return forward_unit(last, value) * scale;
  }
  torch::nn::Linear first = nullptr;
  torch::nn::Linear middle = nullptr;
  torch::nn::Linear last = nullptr;
  at::Tensor scale;
};
TORCH_MODULE(Blocks);

}  // namespace divided_nets
