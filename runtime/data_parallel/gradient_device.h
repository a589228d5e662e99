// The device of a reducer's gradients: the CPU, or a CUDA device. Memory there, and copies within it.
//
// On a CUDA device all of it is queued in the calling thread's current stream (dlaunch/stream.h). The threads
// that mark gradients may have several such streams. So a reduction is ordered after all in which gradients
// of its step were marked, and each of them after the end of the step before.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "dlaunch/process_group.h"
#include "dlaunch/stream.h"
#include "dlaunch/tensor.h"
#include "runtime/staging/device_copies.h"

namespace dlaunch::internal {

// Not synchronised, unless a member allows it.
class GradientDevice {
 public:
  GradientDevice() = default;  // the CPU, without a group: no allocate()
  // Throws DistBackendError if the device cannot be used.
  GradientDevice(Device device, ProcessGroup group);

  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] bool is_cpu() const { return copies_ == nullptr; }

  struct Block {
    std::shared_ptr<std::byte> memory;
    bool is_shared;  // the ranks of this host reduce it in place
  };
  // Zeros.
  Block allocate(std::size_t bytes);

  // Any thread. Both have as many bytes; nothing if they are the same memory.
  void copy(const Tensor& to, const Tensor& from) const;
  void zero(const Tensor& tensor) const;

  // The calling thread's current stream takes part in the step; nothing on the CPU, so below.
  void enter();
  // The calling thread's current stream goes on after all that take part.
  void join();
  // The step ends in the calling thread's current stream. No stream takes part in the next one yet.
  void end_step();

 private:
  [[nodiscard]] Stream stream() const { return current_stream(device_.index); }
  void order_current(const DeviceCopies::Place& place) const;

  ProcessGroup group_;
  Device device_;
  const StagingModule* module_ = nullptr;
  std::unique_ptr<DeviceCopies> copies_;  // null: the CPU
  std::vector<Stream> streams_;           // that take part
  DeviceCopies::Place end_of_last_;
};

}  // namespace dlaunch::internal
