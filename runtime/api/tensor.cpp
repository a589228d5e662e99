#include "dlaunch/tensor.h"

#include <algorithm>
#include <limits>

#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

// Throws rather than wraps around: a wrapped count would be a write beyond the caller's memory.
std::size_t count_elements(std::span<const std::int64_t> shape, DType dtype) {
  if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) {
    throw DistError("a tensor's shape " + shape_text(shape) + " has a negative extent");
  }
  if (std::ranges::find(shape, 0) != shape.end()) return 0;
  std::size_t count = 1;
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      throw DistError("a tensor of shape " + shape_text(shape) + " is larger than any memory");
    }
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

}  // namespace

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::int8:
      return "int8";
    case DType::int16:
      return "int16";
    case DType::int32:
      return "int32";
    case DType::int64:
      return "int64";
    case DType::uint8:
      return "uint8";
    case DType::boolean:
      return "bool";
    case DType::float16:
      return "float16";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float32:
      return "float32";
    case DType::float64:
      return "float64";
    case DType::complex64:
      return "complex64";
    case DType::complex128:
      return "complex128";
    case DType::float8_e4m3:
      return "float8_e4m3fn";
    case DType::float8_e5m2:
      return "float8_e5m2";
  }
  return "an unknown dtype";
}

std::string to_string(Device device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return "cpu";
    case Device::Kind::cuda:
      return "cuda:" + std::to_string(device.index);
  }
  return "an unknown device";
}

Tensor::Tensor(void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : data_(data), dtype_(dtype), device_(device) {
  if (dtype > last_dtype) {
    throw DistError("a tensor of dtype " + std::to_string(static_cast<int>(dtype)) + ": unknown dtype");
  }
  if (shape.size() > max_dims) {
    throw DistError("a tensor has " + std::to_string(shape.size()) + " dimensions; at most " +
                    std::to_string(max_dims) + " are possible");
  }
  numel_ = count_elements(shape, dtype);
  if (numel_ > 0 && data == nullptr)
    throw DistError("a tensor of shape " + shape_text(shape) + " has no memory");
  if (numel_ > 0 && (reinterpret_cast<std::uintptr_t>(data) & (alignment_of(dtype) - 1)) != 0) {
    throw DistError("the memory of a " + std::string(v1::to_string(dtype)) + " tensor is not aligned to " +
                    std::to_string(alignment_of(dtype)) + " bytes");
  }
  std::ranges::copy(shape, shape_.begin());
  dims_ = static_cast<std::uint8_t>(shape.size());
}

Tensor::Tensor(const void* data, DType dtype, std::span<const std::int64_t> shape, Device device)
    : Tensor(const_cast<void*>(data), dtype, shape, device) {
  read_only_ = true;
}

std::string Tensor::to_string() const {
  return std::string(v1::to_string(dtype_)) + shape_text(shape()) + " on " + v1::to_string(device_);
}

}  // namespace v1
}  // namespace dlaunch
