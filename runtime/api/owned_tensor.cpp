#include "dlaunch/owned_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>

#include "dlaunch/error.h"

namespace dlaunch {
inline namespace v1 {

namespace {

constexpr std::align_val_t alignment{64};

// Only the shape is checked: the memory is this placeholder's.
std::size_t bytes_of(std::span<const std::int64_t> shape, DType dtype) {
  alignas(16) static std::array<std::byte, 16> placeholder{};
  return Tensor(placeholder.data(), dtype, shape).nbytes();
}

std::shared_ptr<void> allocate(std::size_t bytes) {
  void* const memory = ::operator new(std::max<std::size_t>(bytes, 1), alignment, std::nothrow);
  if (memory == nullptr)
    throw DistError("there is no memory for a tensor of " + std::to_string(bytes) + " bytes");
  return {memory, [](void* owned) { ::operator delete(owned, alignment); }};
}

}  // namespace

OwnedTensor OwnedTensor::empty(std::span<const std::int64_t> shape, DType dtype) {
  std::shared_ptr<void> memory = allocate(bytes_of(shape, dtype));
  const Tensor view(memory.get(), dtype, shape);
  return OwnedTensor(std::move(memory), view);
}

OwnedTensor OwnedTensor::zeros(std::span<const std::int64_t> shape, DType dtype) {
  OwnedTensor tensor = empty(shape, dtype);
  std::ranges::fill(tensor.view_.bytes(), std::byte{0});
  return tensor;
}

Work OwnedTensor::held_by(Work work) const {
  if (!work.has_ended()) work.then([owner = owner_](const Work& /*ended*/) {});
  return work;
}

OwnedTensor OwnedTensor::clone() const {
  OwnedTensor copy = empty(shape(), dtype());
  std::ranges::copy(view_.bytes(), copy.view_.bytes().begin());
  return copy;
}

OwnedTensor OwnedTensor::reshape(std::span<const std::int64_t> shape) const {
  if (bytes_of(shape, dtype()) != nbytes()) {
    throw DistError("the tensor " + view_.to_string() + " has " + std::to_string(numel()) +
                    " elements; the new shape has " +
                    std::to_string(bytes_of(shape, dtype()) / size_of(dtype())));
  }
  return {owner_, Tensor(view_.data(), dtype(), shape)};
}

OwnedTensor OwnedTensor::narrow(std::int64_t first, std::int64_t count) const {
  const std::span<const std::int64_t> whole = shape();
  if (whole.empty() || first < 0 || count < 0 || first > whole[0] || count > whole[0] - first) {
    throw DistError("the tensor " + view_.to_string() + " has no " + std::to_string(count) +
                    " rows from row " + std::to_string(first) + " on");
  }
  std::array<std::int64_t, Tensor::max_dims> part{};
  std::ranges::copy(whole, part.begin());
  part[0] = count;
  const std::size_t row = whole[0] == 0 ? 0 : nbytes() / static_cast<std::size_t>(whole[0]);
  std::byte* const data = static_cast<std::byte*>(view_.data()) + row * static_cast<std::size_t>(first);
  return {owner_, Tensor(data, dtype(), std::span(part.data(), whole.size()))};
}

void OwnedTensor::require(DType dtype) const {
  if (dtype == this->dtype()) return;
  throw DistError("the elements of the tensor " + view_.to_string() + " are no " +
                  std::string(to_string(dtype)));
}

}  // namespace v1
}  // namespace dlaunch
