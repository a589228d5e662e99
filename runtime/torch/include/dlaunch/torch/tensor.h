// Tensors of LibTorch as operands of the library's calls: of the CPU, and of CUDA devices if libdlaunch_torch
// was built with a LibTorch that has CUDA.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>  // c10::List, whole
#include <c10/util/ArrayRef.h>

#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/tensor.h"

namespace dlaunch::torch {
inline namespace v1 {

// None: no dtype of ours stores it (quantised numbers, newer kinds).
DLAUNCH_EXPORT std::optional<DType> dtype_of(at::ScalarType type);
DLAUNCH_EXPORT at::ScalarType scalar_type_of(DType dtype);

// Views of the same memory. The memory must stay valid as long as the view is used: neither keeps it alive.
// view_of: DistError that names the reason if the tensor is undefined, is on another device, has a layout
// other than strided, a dtype that is not ours, or if its elements do not lie in row-major order without
// gaps. Shapes of more than Tensor::max_dims dimensions become one dimension.
DLAUNCH_EXPORT Tensor view_of(const at::Tensor& tensor);
DLAUNCH_EXPORT at::Tensor tensor_of(const Tensor& view);

// A list of tensors as an argument: a vector, c10::List, at::TensorList or braces. Holds handles.
class Tensors {
 public:
  Tensors() = default;
  Tensors(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}
  Tensors(std::initializer_list<at::Tensor> tensors) : tensors_(tensors) {}
  Tensors(at::TensorList tensors) : tensors_(tensors.vec()) {}
  Tensors(const c10::List<at::Tensor>& tensors) : tensors_(tensors.vec()) {}

  [[nodiscard]] const std::vector<at::Tensor>& vec() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
};

}  // namespace v1
}  // namespace dlaunch::torch
