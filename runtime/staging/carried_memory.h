// Memory of the host whose data a call of a group carries, as tensors of a device on which the group works:
// the CPU; or, for a group of CUDA tensors only, a CUDA device, to which it is copied before the call, and
// from which afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlaunch/process_group.h"
#include "runtime/staging/device_copies.h"

namespace dlaunch::internal {

// What is given to it must stay as long as it. Throws DistBackendError if a device cannot be used.
class CarriedMemory {
 public:
  // `device`: the CUDA device that is used if the group works on CUDA tensors only; the CPU: the thread's
  // current one.
  explicit CarriedMemory(const ProcessGroup& group, Device device = {});
  ~CarriedMemory();
  CarriedMemory(const CarriedMemory&) = delete;
  CarriedMemory& operator=(const CarriedMemory&) = delete;

  [[nodiscard]] bool is_on_device() const { return module_ != nullptr; }

  // One tensor, with what is there now.
  Tensor of(std::string& bytes) { return blocks(bytes, 1, bytes.size()).front(); }
  Tensor of(std::vector<std::int64_t>& numbers) { return tensor_of(numbers); }
  Tensor of(std::vector<std::uint8_t>& numbers) { return tensor_of(numbers); }
  // As many tensors of `size` bytes each, one behind the other.
  std::vector<Tensor> blocks(std::string& bytes, std::size_t count, std::size_t size);

  // After the call: everything is what the device has.
  void fetch();

 private:
  template <class Number>
  Tensor tensor_of(std::vector<Number>& numbers);
  void* place(void* memory, std::size_t bytes);
  void wait_for(const DeviceCopies::Place& place) const;

  const ProcessGroup group_;
  const StagingModule* module_ = nullptr;  // null: on the CPU
  Device device_;
  std::unique_ptr<DeviceCopies> copies_;
  std::vector<DeviceCopies::Copy> pieces_;
};

}  // namespace dlaunch::internal
