// What data-parallel training needs of autograd's graph.
#pragma once

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace dlaunch::torch::internal {

// Calls a function after each time that autograd has added to a parameter's gradient, on the thread that has.
class GradientHooks {
 public:
  // `call` gets the parameter's number; what it throws leaves backward().
  GradientHooks(const std::vector<at::Tensor>& parameters, std::function<void(std::size_t)> call);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

  // The numbers of the parameters that the graph behind `outputs` does not reach, in ascending order.
  [[nodiscard]] std::vector<std::size_t> unreached_from(const std::vector<at::Tensor>& outputs) const;

 private:
  // LibTorch's kind of pointer to a node differs by its version.
  using NodePointer = decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));
  struct Accumulator {
    NodePointer node;  // autograd itself keeps it by a weak reference only
    std::uintptr_t hook;
  };
  std::vector<Accumulator> accumulators_;
};

// Runs `call` at the end of the backward pass that this thread is in.
void at_end_of_backward(std::function<void()> call);

}  // namespace dlaunch::torch::internal
