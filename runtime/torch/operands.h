// The tensors of one operation.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "dlaunch/torch/distributed.h"

namespace dlaunch::torch::internal {

// Makes views of tensors, and copies of those that are not contiguous. It is built before the operation
// starts and holds the tensors until the operation has ended.
class Operands {
 public:
  explicit Operands(const char* call) : call_(call) {}

  // What the operation reads only, and what it writes.
  [[nodiscard]] Tensor input(const at::Tensor& tensor) { return add(tensor, false); }
  [[nodiscard]] Tensor output(const at::Tensor& tensor) { return add(tensor, true); }
  [[nodiscard]] std::vector<Tensor> inputs(const Tensors& tensors) { return add_all(tensors, false); }
  [[nodiscard]] std::vector<Tensor> outputs(const Tensors& tensors) { return add_all(tensors, true); }

  // Of the operation on these views.
  [[nodiscard]] TensorWork finish(Work work) &&;

 private:
  [[nodiscard]] Tensor add(const at::Tensor& tensor, bool is_written);
  [[nodiscard]] std::vector<Tensor> add_all(const Tensors& tensors, bool are_written);

  const char* const call_;
  std::vector<at::Tensor> held_;
  std::vector<at::Tensor> results_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  // to a result, from the memory of the operation
};

}  // namespace dlaunch::torch::internal
