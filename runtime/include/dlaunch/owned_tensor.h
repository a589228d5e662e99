// A tensor with memory of its own, which every call that takes a Tensor takes.
//
//   dlaunch::OwnedTensor sum = dlaunch::OwnedTensor::of(std::vector<float>{1, 2, 3});
//   dlaunch::all_reduce(sum);
//   for (float value : sum.as<float>()) use(value);
//
//   // The operation may outlive all other handles:
//   dlaunch::Work work = part.held_by(dlaunch::all_reduce(part, dlaunch::ReduceOp::sum, {{.async_op =
//   true}}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dlaunch/export.h"
#include "dlaunch/tensor.h"
#include "dlaunch/work.h"

namespace dlaunch {
inline namespace v1 {

// A handle; copies share the memory (of the CPU, row-major), which is freed with the last of them. Threads:
// as a std::shared_ptr; the elements are for the program to protect.
class DLAUNCH_EXPORT OwnedTensor {
 public:
  OwnedTensor() = default;  // no elements, float32

  // Memory with any values, or with zeros, aligned to 64 bytes. DistError as of Tensor's constructor, and if
  // there is not so much memory.
  static OwnedTensor empty(std::span<const std::int64_t> shape, DType dtype = DType::float32);
  static OwnedTensor zeros(std::span<const std::int64_t> shape, DType dtype = DType::float32);
  static OwnedTensor empty(std::initializer_list<std::int64_t> shape, DType dtype = DType::float32) {
    return empty(std::span(shape.begin(), shape.size()), dtype);
  }
  static OwnedTensor zeros(std::initializer_list<std::int64_t> shape, DType dtype = DType::float32) {
    return zeros(std::span(shape.begin(), shape.size()), dtype);
  }
  // Takes the elements over, without a copy: one dimension.
  template <class T>
  static OwnedTensor of(std::vector<T> values) {
    auto owner = std::make_shared<std::vector<T>>(std::move(values));
    const Tensor view = Tensor::of(*owner);
    return OwnedTensor(std::move(owner), view);
  }

  // Of the same memory, which must outlive the view: this handle, a copy, or held_by() keeps it.
  [[nodiscard]] const Tensor& view() const { return view_; }
  operator const Tensor&() const { return view_; }
  // Keeps the memory until the operation has ended. Returns the operation.
  Work held_by(Work work) const;

  [[nodiscard]] DType dtype() const { return view_.dtype(); }
  [[nodiscard]] std::span<const std::int64_t> shape() const { return view_.shape(); }
  [[nodiscard]] std::size_t numel() const { return view_.numel(); }
  [[nodiscard]] std::size_t nbytes() const { return view_.nbytes(); }

  // The elements. DistError if they are no T.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    require(dtype_of<T>());
    return {static_cast<T*>(view_.data()), view_.numel()};
  }

  // Memory of its own with the same values.
  [[nodiscard]] OwnedTensor clone() const;
  // The same memory with another shape. DistError if the number of elements differs.
  [[nodiscard]] OwnedTensor reshape(std::span<const std::int64_t> shape) const;
  [[nodiscard]] OwnedTensor reshape(std::initializer_list<std::int64_t> shape) const {
    return reshape(std::span(shape.begin(), shape.size()));
  }
  // Rows [first, first + count) of the first dimension: the same memory. DistError if there are not so many.
  [[nodiscard]] OwnedTensor narrow(std::int64_t first, std::int64_t count) const;

 private:
  OwnedTensor(std::shared_ptr<void> owner, const Tensor& view) : owner_(std::move(owner)), view_(view) {}
  void require(DType dtype) const;

  std::shared_ptr<void> owner_;
  Tensor view_;
};

}  // namespace v1
}  // namespace dlaunch
