// Modules for tests of data-parallel training.
#pragma once

#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

// Outside of dlaunch, in which `torch` is dlaunch::torch.
namespace small_nets {

// Two layers, one of which an input may skip.
struct NetImpl : torch::nn::Module {
  explicit NetImpl(int hidden = 5) {
    first = register_module("first", torch::nn::Linear(4, hidden));
    extra = register_module("extra", torch::nn::Linear(hidden, hidden));
    last = register_module("last", torch::nn::Linear(hidden, 2));
  }
  at::Tensor forward(const at::Tensor& input, bool with_extra = true) {
    at::Tensor value = torch::tanh(first->forward(input));
    if (with_extra) value = value + torch::relu(extra->forward(value));
    return last->forward(value);
  }
  torch::nn::Linear first = nullptr;
  torch::nn::Linear extra = nullptr;
  torch::nn::Linear last = nullptr;
};
TORCH_MODULE(Net);

// The same values on all ranks and in every run.
inline at::Tensor numbers(at::IntArrayRef shape, double phase) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return torch::sin(torch::arange(count, at::kFloat) * 1.7 + phase).reshape(shape);
}

template <class Module>
void set_parameters(Module& module, double phase, double scale = 1) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : module.parameters())
    parameter.copy_(numbers(parameter.sizes(), phase++) * scale);
}

// A batch of a step, and a rank's part of it.
inline at::Tensor batch(int step, int size = 12) { return numbers({size, 4}, 100. * step); }
inline at::Tensor part(const at::Tensor& whole, int rank, int ranks) { return whole.chunk(ranks)[rank]; }

inline at::Tensor loss_of(const at::Tensor& output) { return output.pow(2).mean(); }

// The gradients of one process with the whole batch.
inline std::vector<at::Tensor> whole_gradients(double phase, const at::Tensor& input,
                                               bool with_extra = true) {
  Net net;
  set_parameters(*net, phase);
  loss_of(net->forward(input, with_extra)).backward();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : net->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

// Which parameters' gradients differ: "" if all are close; an undefined one is "none".
inline std::string differences(const torch::nn::Module& module, const std::vector<at::Tensor>& wanted) {
  std::string text;
  const auto parameters = module.named_parameters();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const at::Tensor& gradient = parameters[i].value().grad();
    if (gradient.defined() != wanted[i].defined()) {
      text += parameters[i].key() + (gradient.defined() ? " has a gradient; " : " has none; ");
    } else if (gradient.defined() && !gradient.allclose(wanted[i], 1e-5, 1e-7)) {
      text += parameters[i].key() + " differs; ";
    }
  }
  return text;
}

}  // namespace small_nets
