#include "runtime/torch/operands.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <string>

#include "dlaunch/error.h"
#include "runtime/torch/devices.h"

namespace dlaunch::torch::internal {

namespace {

// Whether the memory is the values: a conjugated or negated view is marked so, and its memory is not.
bool has_plain_memory(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

Tensor Operands::add(const at::Tensor& tensor, bool is_written) {
  if (!tensor.defined()) throw DistError("a tensor is undefined", {.operation = call_});
  const at::NoGradGuard no_grad;
  if (is_written) {
    if (tensor.is_inference() && !c10::InferenceMode::is_enabled())
      throw DistError("a tensor that was made in inference mode is written outside of it",
                      {.operation = call_});
    // Without it a backward pass would take the new values for those that it has saved.
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
    results_.push_back(tensor);
  }
  at::Tensor memory = tensor;
  if (tensor.layout() == at::kStrided && !why_not_on(tensor.device()) && !has_plain_memory(tensor)) {
    memory = at::empty(tensor.sizes(), tensor.options());
    // Also for results: an operation may leave them as they are (this rank is not a member of the group).
    memory.copy_(tensor);
    if (is_written) copies_.emplace_back(tensor, memory);
  }
  held_.push_back(memory);
  try {
    return view_of(memory);
  } catch (const DistError& error) {
    throw DistError(error.reason(), {.operation = call_});
  }
}

std::vector<Tensor> Operands::add_all(const Tensors& tensors, bool are_written) {
  std::vector<Tensor> views;
  views.reserve(tensors.vec().size());
  for (const at::Tensor& tensor : tensors.vec()) views.push_back(add(tensor, are_written));
  return views;
}

TensorWork Operands::finish(Work work) && {
  // On a device the copies are in the order of the caller's stream, which a thread that ends operations has
  // not.
  if (std::ranges::any_of(copies_, [](const auto& copy) { return copy.first.is_cuda(); })) {
    work.wait();
    const at::NoGradGuard no_grad;
    for (const auto& [to, from] : copies_) to.copy_(from);
    copies_.clear();
  }
  if (!copies_.empty() || !work.has_ended()) {
    work.then([held = std::move(held_), copies = std::move(copies_)](const Work& ended) {
      if (!ended.is_success()) return;
      const at::NoGradGuard no_grad;
      for (const auto& [to, from] : copies) to.copy_(from);
    });
  }
  return {std::move(work), std::move(results_)};
}

}  // namespace dlaunch::torch::internal
