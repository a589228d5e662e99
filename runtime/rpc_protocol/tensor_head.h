// A tensor in the bytes of a call: what is before its elements, and the checks before a tensor is made of
// them. It knows the dtypes by their numbers only: LibTorch's tensors are made in runtime/torch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dlaunch/codec.h"

namespace dlaunch::internal {

// Devices are CUDA's numbers.
constexpr std::int16_t on_cpu = -1;

// The tensor's place among those that its message has for distributed autograd.
struct TensorLink {
  std::uint64_t context = 0;
  std::int32_t worker = 0;  // the sender
  std::uint64_t message = 0;
  std::uint32_t index = 0;
  std::int16_t device = on_cpu;  // the sender's, to which the gradient goes

  bool operator==(const TensorLink&) const = default;
  template <class Archive>
  friend void serialize(Archive& archive, TensorLink& link) {
    archive(link.context, link.worker, link.message, link.index, link.device);
  }
};

struct TensorHead {
  bool is_defined = false;
  std::int8_t type = 0;          // LibTorch's number of the dtype
  std::int16_t device = on_cpu;  // the receiver's
  std::vector<std::int64_t> shape;
  std::optional<TensorLink> link;

  bool operator==(const TensorHead&) const = default;
  template <class Archive>
  friend void serialize(Archive& archive, TensorHead& head) {
    archive(head.is_defined, head.type, head.device, head.shape, head.link);
  }
};

// A tensor that has arrived. Of an undefined one only the head counts, which has no link.
struct TensorBytes {
  TensorHead head;
  codec::Block elements;  // contiguous; as many as the shape has
};

// What a tensor can be here.
struct TensorLimits {
  // The bytes of an element, by the dtype's number; 0: such tensors are not sent.
  std::size_t (*element_size)(std::int8_t type);
  // How many devices this worker has. Asked for tensors of devices only.
  int (*device_count)();
};

// Reads a head and its elements. The shape's strides fit into an std::int64_t. Throws DistError.
TensorBytes read_tensor(codec::Read& read, const TensorLimits& limits);

}  // namespace dlaunch::internal
