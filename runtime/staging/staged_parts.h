// Which data of a call on device memory are copied to the host and back, and into how many calls on host
// memory it is cut.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/staging/device_copies.h"

namespace dlaunch::internal {

struct StagedTensor {
  enum class Way : std::uint8_t { to_host, to_device, both };

  Tensor device;
  Way way;
};

// One call on host memory. `call` gets host tensors in the place of `tensors`, in their order.
struct StagedPart {
  std::vector<StagedTensor> tensors;
  std::function<Work(std::span<const Tensor> host, const Operation& operation)> call;
  bool in_place = false;  // `call` takes the device's memory: nothing is copied

  // Of host memory.
  [[nodiscard]] std::size_t bytes() const;
  // The host tensors in that memory, which is aligned for every dtype; in place: those of the device.
  [[nodiscard]] std::vector<Tensor> on_host(std::byte* memory) const;
  // Before and after the call. Copies of neighbours are one copy.
  [[nodiscard]] std::vector<DeviceCopies::Copy> copies_to_host(std::byte* memory) const;
  [[nodiscard]] std::vector<DeviceCopies::Copy> copies_to_device(std::byte* memory) const;
};

// Long tensors of calls in which each element stands for itself (all_reduce, reduce, broadcast) are cut in
// parts of this size: one is on the network while the next one and the one before are copied. Other calls
// move whole tensors between ranks: the tensors of a list have sizes of their own, and a message is one for
// its receiver, whose tensor may be on the CPU.
inline constexpr std::size_t staged_part_bytes = std::size_t{4} << 20U;

// One part at least. Equal on all ranks for equal tensors.
std::vector<Tensor> cut_in_parts(const Tensor& tensor, std::size_t part_bytes = staged_part_bytes);

}  // namespace dlaunch::internal
