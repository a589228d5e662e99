// PyTorch's tensors as dlaunch's: views of the same memory.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "dlaunch/dlaunch.h"

namespace dlaunch::torch {

inline std::optional<int> dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kChar:
      return DLAUNCH_INT8;
    case at::kShort:
      return DLAUNCH_INT16;
    case at::kInt:
      return DLAUNCH_INT32;
    case at::kLong:
      return DLAUNCH_INT64;
    case at::kByte:
      return DLAUNCH_UINT8;
    case at::kBool:
      return DLAUNCH_BOOL;
    case at::kHalf:
      return DLAUNCH_FLOAT16;
    case at::kBFloat16:
      return DLAUNCH_BFLOAT16;
    case at::kFloat:
      return DLAUNCH_FLOAT32;
    case at::kDouble:
      return DLAUNCH_FLOAT64;
    case at::kComplexFloat:
      return DLAUNCH_COMPLEX64;
    case at::kComplexDouble:
      return DLAUNCH_COMPLEX128;
    case at::kFloat8_e4m3fn:
      return DLAUNCH_FLOAT8_E4M3;
    case at::kFloat8_e5m2:
      return DLAUNCH_FLOAT8_E5M2;
    default:
      return std::nullopt;
  }
}

// Sums, products and bits of unsigned numbers are those of signed ones; minimum and maximum are not.
inline std::optional<int> signed_dtype_of(at::ScalarType type) {
  switch (type) {
    case at::kUInt16:
      return DLAUNCH_INT16;
    case at::kUInt32:
      return DLAUNCH_INT32;
    case at::kUInt64:
      return DLAUNCH_INT64;
    default:
      return std::nullopt;
  }
}

// For an operation that adds or compares: a wrong type is a TypeError.
inline int reduced_dtype(const at::Tensor& tensor, int op) {
  const at::ScalarType type = tensor.scalar_type();
  if (const auto found = dtype_of(type)) return *found;
  const bool orders = op == DLAUNCH_AVG || op == DLAUNCH_MIN || op == DLAUNCH_MAX;
  if (const auto found = signed_dtype_of(type); found && !orders) return *found;
  C10_THROW_ERROR(TypeError, std::string("backend dlaunch cannot reduce torch.") +
                                 std::string(c10::getDtypeNames(type).first) +
                                 " with this operation: convert the tensor first");
}

// Views of dense tensors, for one call.
class Views {
 public:
  // For an operation that only moves data: any dtype.
  static Views moved(const std::vector<at::Tensor>& tensors) {
    Views views(tensors.size());
    for (const at::Tensor& tensor : tensors) {
      const auto dtype = dtype_of(tensor.scalar_type());
      const int64_t bytes = dtype ? 1 : tensor.element_size();
      views.add(tensor, dtype.value_or(DLAUNCH_UINT8), tensor.numel() * bytes);
    }
    return views;
  }
  static Views reduced(const std::vector<at::Tensor>& tensors, int op) {
    Views views(tensors.size());
    for (const at::Tensor& tensor : tensors) views.add(tensor, reduced_dtype(tensor, op), tensor.numel());
    return views;
  }
  // The shapes stay in their place.
  Views(Views&&) = default;

  [[nodiscard]] const dlaunch_tensor* data() const { return tensors_.data(); }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }

 private:
  explicit Views(std::size_t count) {
    counts_.reserve(count);
    tensors_.reserve(count);
  }
  void add(const at::Tensor& tensor, int dtype, int64_t count) {
    counts_.push_back(count);
    tensors_.push_back({tensor.data_ptr(), dtype, &counts_.back(), 1, DLAUNCH_CPU, 0});
  }

  std::vector<int64_t> counts_;
  std::vector<dlaunch_tensor> tensors_;
};

inline bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

// Tensors of one call. A tensor with gaps is replaced by a dense copy; that of an output is copied back at
// the end. All of them are kept until then.
class Prepared {
 public:
  at::Tensor input(const at::Tensor& tensor) {
    const at::Tensor dense =
        is_plain(tensor) ? tensor : tensor.detach().resolve_conj().resolve_neg().contiguous();
    kept_.push_back(dense);
    return dense;
  }
  // `keep`: the operation may read it, or leave it as it is.
  at::Tensor output(const at::Tensor& tensor, bool keep = false) {
    if (is_plain(tensor)) {
      kept_.push_back(tensor);
      return tensor;
    }
    for (int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.numel() > 0 && tensor.stride(i) == 0 && tensor.size(i) > 1)
        C10_THROW_ERROR(ValueError, "an output tensor is expanded: several of its elements share memory");
    }
    const at::Tensor dense = keep ? input(tensor) : at::empty(tensor.sizes(), tensor.options());
    kept_.push_back(dense);
    copies_back_.emplace_back(tensor, dense);
    return dense;
  }
  std::vector<at::Tensor> inputs(const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> dense;
    for (const at::Tensor& tensor : tensors) dense.push_back(input(tensor));
    return dense;
  }
  std::vector<at::Tensor> outputs(const std::vector<at::Tensor>& tensors, bool keep = false) {
    std::vector<at::Tensor> dense;
    for (const at::Tensor& tensor : tensors) dense.push_back(output(tensor, keep));
    return dense;
  }

  [[nodiscard]] bool copies_back() const { return !copies_back_.empty(); }
  void copy_back() {
    const at::NoGradGuard no_grad;
    for (const auto& [tensor, dense] : copies_back_) tensor.copy_(dense);
  }
  std::vector<at::Tensor> take_kept() { return std::exchange(kept_, {}); }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_back_;
};

}  // namespace dlaunch::torch
