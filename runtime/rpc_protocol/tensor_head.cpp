#include "runtime/rpc_protocol/tensor_head.h"

#include <algorithm>
#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {

namespace {

constexpr std::size_t most_dims = 64;  // of a tensor of LibTorch
constexpr std::size_t most_elements = std::size_t{1} << 48U;

// A shape with a 0 has no elements, and still has strides: they are limited as if it was 1.
std::size_t elements_of(const std::vector<std::int64_t>& shape) {
  if (shape.size() > most_dims) throw DistError("a serialised tensor has too many dimensions");
  std::size_t reach = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && reach > most_elements / static_cast<std::size_t>(size)))
      throw DistError("a serialised tensor has a shape that cannot be");
    reach *= static_cast<std::size_t>(std::max<std::int64_t>(size, 1));
  }
  return std::ranges::find(shape, 0) == shape.end() ? reach : 0;
}

void require_device(std::int16_t device, const TensorLimits& limits) {
  if (device == on_cpu) return;
  const int count = limits.device_count();
  if (device >= 0 && device < count) return;
  throw DistError("a serialised tensor is for device " + std::to_string(device) +
                  ", and this worker has so many: " + std::to_string(count));
}

}  // namespace

TensorBytes read_tensor(codec::Read& read, const TensorLimits& limits) {
  TensorBytes tensor;
  TensorHead& head = tensor.head;
  read(head);
  if (!head.is_defined) {
    if (head.link) throw DistError("a serialised tensor is undefined, and has a gradient");
    return tensor;
  }
  const std::size_t size = limits.element_size(head.type);
  if (size == 0) throw DistError("a serialised tensor has an unknown dtype");
  if (head.link && head.link->worker < 0) throw DistError("a serialised tensor is of no worker");
  require_device(head.device, limits);
  const std::size_t count = elements_of(head.shape);
  read.reader().require(count, size);
  tensor.elements = read.reader().plain(count * size);
  return tensor;
}

}  // namespace dlaunch::internal
