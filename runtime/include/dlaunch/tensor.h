// The operand of all operations: a view of memory that the caller owns.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "dlaunch/export.h"
#include "dlaunch/float8.h"
#include "dlaunch/half.h"

namespace dlaunch {
inline namespace v1 {

enum class DType : std::uint8_t {
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,  // one byte, 0 or 1: C++'s bool
  float16,
  bfloat16,
  float32,
  float64,
  complex64,    // two float32: real, imaginary
  complex128,   // two float64
  float8_e4m3,  // "float8_e4m3fn"
  float8_e5m2,
};
// Their numbers, which go to other processes, never change: new ones come at the end.
inline constexpr DType last_dtype = DType::float8_e5m2;

DLAUNCH_EXPORT std::string_view to_string(DType dtype);  // "float32"; the field's names: "bool"
// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::uint8:
    case DType::boolean:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return 1;
    case DType::int16:
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::int32:
    case DType::float32:
      return 4;
    case DType::int64:
    case DType::float64:
    case DType::complex64:
      return 8;
    case DType::complex128:
      return 16;
  }
  return 1;
}

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda };

  Kind kind = Kind::cpu;
  int index = 0;  // of the GPU; 0 for the CPU

  bool operator==(const Device&) const = default;
};

DLAUNCH_EXPORT std::string to_string(Device device);  // "cpu", "cuda:1"

// The dtype that stores a C++ type; not defined for types that no dtype stores.
template <class T>
consteval DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>) {
    return DType::boolean;
  } else if constexpr (std::is_same_v<T, std::uint8_t>) {
    return DType::uint8;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 1) {
    return DType::int8;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 2) {
    return DType::int16;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 4) {
    return DType::int32;
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8) {
    return DType::int64;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return DType::float16;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return DType::bfloat16;
  } else if constexpr (std::is_same_v<T, Float8E4M3>) {
    return DType::float8_e4m3;
  } else if constexpr (std::is_same_v<T, Float8E5M2>) {
    return DType::float8_e5m2;
  } else if constexpr (std::is_same_v<T, float>) {
    return DType::float32;
  } else if constexpr (std::is_same_v<T, double>) {
    return DType::float64;
  } else if constexpr (std::is_same_v<T, std::complex<float>>) {
    return DType::complex64;
  } else {
    static_assert(std::is_same_v<T, std::complex<double>>, "no dtype stores this type");
    return DType::complex128;
  }
}

// Contiguous elements that outlive the expression: a vector, array or span, but not a temporary vector.
template <class Range>
concept ViewableRange = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    (std::is_lvalue_reference_v<Range> || std::ranges::borrowed_range<Range>);

// A non-owning view of contiguous memory (row-major) with a type, a shape and a device.
// Copying it copies the view. It does not own the memory: the memory must stay valid,
// and the program must not use it, until the operation on the view has completed.
//
// A view of const memory may be used as an input only; operations that would write to it throw DistError.
//
//   std::vector<float> gradients(1000);
//   dlaunch::all_reduce(dlaunch::Tensor::of(gradients));
class DLAUNCH_EXPORT Tensor {
 public:
  static constexpr std::size_t max_dims = 8;

  Tensor() = default;  // no elements, float32, cpu

  // Throws DistError if there are more than max_dims dimensions, one is negative, their product (in bytes) is
  // not a std::int64_t, or `data` is null or not aligned for the dtype although there are elements.
  Tensor(void* data, DType dtype, std::span<const std::int64_t> shape, Device device = {});
  Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape, Device device = {});

  // One dimension: all elements of the range.
  template <ViewableRange Range>
  static Tensor of(Range&& range) {
    return Tensor(std::ranges::data(range), static_cast<std::int64_t>(std::ranges::size(range)));
  }

  template <class T>
  static Tensor from(T* data, std::initializer_list<std::int64_t> shape, Device device = {}) {
    return Tensor(data, dtype_of<std::remove_cv_t<T>>(), std::span(shape.begin(), shape.size()), device);
  }
  template <class T>
  static Tensor from(T* data, std::span<const std::int64_t> shape, Device device = {}) {
    return Tensor(data, dtype_of<std::remove_cv_t<T>>(), shape, device);
  }

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] bool read_only() const { return read_only_; }
  [[nodiscard]] std::span<const std::int64_t> shape() const { return {shape_.data(), dims_}; }
  [[nodiscard]] std::size_t numel() const { return numel_; }  // elements; 1 without dimensions
  [[nodiscard]] std::size_t nbytes() const { return numel_ * size_of(dtype_); }
  // The memory as bytes. REQUIRES: device() is the CPU.
  [[nodiscard]] std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), nbytes()}; }

  // "float32[2, 3] on cpu"
  [[nodiscard]] std::string to_string() const;

 private:
  static constexpr std::size_t alignment_of(DType dtype) {  // a power of two
    return size_of(dtype) < 8 ? size_of(dtype) : 8;
  }

  // One dimension. What can be wrong is checked again by the constructor that reports it.
  template <class T>
  explicit Tensor(T* data, std::int64_t extent) {
    constexpr DType dtype = dtype_of<std::remove_cv_t<T>>();
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / std::int64_t{size_of(dtype)};
    if (data == nullptr || extent < 0 || extent > most ||
        reinterpret_cast<std::uintptr_t>(data) % alignment_of(dtype) != 0) {
      *this = from(data, {extent});
      return;
    }
    data_ = const_cast<std::remove_cv_t<T>*>(data);
    numel_ = static_cast<std::size_t>(extent);
    shape_[0] = extent;
    dtype_ = dtype;
    read_only_ = std::is_const_v<T>;
  }

  void* data_ = nullptr;
  std::size_t numel_ = 0;
  std::array<std::int64_t, max_dims> shape_{};
  std::uint8_t dims_ = 1;
  DType dtype_ = DType::float32;
  bool read_only_ = false;
  Device device_;
};

}  // namespace v1
}  // namespace dlaunch
