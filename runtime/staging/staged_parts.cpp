#include "runtime/staging/staged_parts.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace dlaunch::internal {

namespace {

constexpr std::size_t alignment = 16;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

std::vector<DeviceCopies::Copy> copies(std::span<const StagedTensor> tensors, std::byte* memory,
                                       StagedTensor::Way other_way) {
  std::vector<DeviceCopies::Copy> all;
  std::byte* host = memory;
  for (const StagedTensor& tensor : tensors) {
    const DeviceCopies::Copy copy{tensor.device.data(), host, tensor.device.nbytes()};
    host += aligned(copy.bytes);
    if (tensor.way == other_way || copy.bytes == 0) continue;
    if (!all.empty() && static_cast<std::byte*>(all.back().device) + all.back().bytes == copy.device &&
        all.back().host + all.back().bytes == copy.host) {
      all.back().bytes += copy.bytes;
    } else {
      all.push_back(copy);
    }
  }
  return all;
}

}  // namespace

std::size_t StagedPart::bytes() const {
  if (in_place) return 0;
  std::size_t all = 0;
  for (const StagedTensor& tensor : tensors) all += aligned(tensor.device.nbytes());
  return all;
}

std::vector<Tensor> StagedPart::on_host(std::byte* memory) const {
  std::vector<Tensor> all;
  all.reserve(tensors.size());
  for (const StagedTensor& tensor : tensors) {
    if (in_place) {
      all.push_back(tensor.device);
      continue;
    }
    all.emplace_back(memory, tensor.device.dtype(), tensor.device.shape());
    memory += aligned(tensor.device.nbytes());
  }
  return all;
}

std::vector<DeviceCopies::Copy> StagedPart::copies_to_host(std::byte* memory) const {
  if (in_place) return {};
  return copies(tensors, memory, StagedTensor::Way::to_device);
}

std::vector<DeviceCopies::Copy> StagedPart::copies_to_device(std::byte* memory) const {
  if (in_place) return {};
  return copies(tensors, memory, StagedTensor::Way::to_host);
}

std::vector<Tensor> cut_in_parts(const Tensor& tensor, std::size_t part_bytes) {
  constexpr std::size_t most_parts = std::numeric_limits<std::uint16_t>::max();
  if (tensor.nbytes() <= part_bytes) return {tensor};
  const std::size_t size = size_of(tensor.dtype());
  const std::size_t step = std::max(part_bytes / size, (tensor.numel() + most_parts - 1) / most_parts);
  std::vector<Tensor> parts;
  for (std::size_t begin = 0; begin < tensor.numel(); begin += step) {
    const auto count = static_cast<std::int64_t>(std::min(step, tensor.numel() - begin));
    void* const data = static_cast<std::byte*>(tensor.data()) + begin * size;
    parts.emplace_back(data, tensor.dtype(), std::span(&count, 1), tensor.device());
  }
  return parts;
}

}  // namespace dlaunch::internal
