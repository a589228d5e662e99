#include "runtime/group/tensor_parts.h"

namespace dlaunch::internal {

Tensor slice(const Tensor& whole, std::size_t begin, std::size_t count) {
  std::byte* const data = static_cast<std::byte*>(whole.data()) + begin * size_of(whole.dtype());
  const std::int64_t extent = static_cast<std::int64_t>(count);
  if (whole.read_only()) {
    return Tensor(static_cast<const void*>(data), whole.dtype(), std::span(&extent, 1), whole.device());
  }
  return Tensor(static_cast<void*>(data), whole.dtype(), std::span(&extent, 1), whole.device());
}

ShortArray<Tensor> equal_parts(const Tensor& whole, std::size_t parts) {
  const std::size_t each = whole.numel() / parts;
  return {parts, [&](std::size_t i) { return slice(whole, i * each, each); }};
}

std::uint64_t bytes_of(std::span<const Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.nbytes();
  return sum;
}

std::uint64_t elements_of(std::span<const Tensor> tensors) {
  std::uint64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.numel();
  return sum;
}

}  // namespace dlaunch::internal
