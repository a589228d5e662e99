// One communicator of NCCL and its stream. It is a non-blocking one: no call of it waits inside NCCL, so that
// deadlines hold and another thread can abort it.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/backends/nccl/nccl_functions.h"
#include "runtime/cuda/cuda_device.h"

namespace dlaunch::internal {

// How a thread waits for NCCL: `look` is called again and again, and throws to end the wait.
using NcclPatience = std::function<void()>;

// One thread at a time.
class NcclCommunicator {
 public:
  // How long the constructor's clean-up, the destructor and a group that has failed wait for ncclCommAbort.
  static constexpr std::chrono::milliseconds abort_limit{3000};

  // On all ranks at the same time. Throws DistBackendError, and what `patience` throws; then it is aborted.
  NcclCommunicator(const NcclFunctions& nccl, const std::string& unique_id, int rank, int size, int device,
                   const NcclPatience& patience);
  ~NcclCommunicator();  // aborts it unless it has ended
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] ncclComm_t handle() const { return handle_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] void* scratch() const { return scratch_; }  // one float on the device

  // Returns when the call, which has returned `result`, is carried out. Throws DistBackendError if it failed.
  void complete(ncclResult_t result, const char* call, const NcclPatience& patience) const;
  // Throws DistBackendError if NCCL reports an error of what was started before.
  void check() const;

  // In order, together with the other ranks, after all operations. Throws as complete().
  void finish(const NcclPatience& patience);
  // Ends its operations. NCCL may not return from that: false after `limit`; then the communicator, and what
  // its kernels use, stay NCCL's until the process ends.
  bool abort(std::chrono::milliseconds limit) noexcept;

 private:
  void make_stream();
  [[nodiscard]] std::string text_of(ncclResult_t result) const;

  const NcclFunctions& nccl_;
  const int device_;
  ncclComm_t handle_ = nullptr;  // null: it has ended
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
  bool is_given_up_ = false;
};

}  // namespace dlaunch::internal
