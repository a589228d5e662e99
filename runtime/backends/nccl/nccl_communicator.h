// One communicator of NCCL and its stream. It is a blocking one: NCCL starts a thread for each call of a
// non-blocking one, which makes small calls ten times as slow. So a call can wait inside NCCL, for a rank
// that has not connected yet: interrupt() ends that from another thread. Calls that make and end a
// communicator run on threads of their own, which are left behind if NCCL does not return.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "runtime/backends/nccl/nccl_functions.h"
#include "runtime/cuda/cuda_device.h"

namespace dlaunch::internal {

// How a thread waits for NCCL: `look` is called again and again, and throws to end the wait.
using NcclPatience = std::function<void()>;

// One thread at a time, but for interrupt().
class NcclCommunicator {
 public:
  // How long the destructor and a group that has failed wait for NCCL to end a communicator.
  static constexpr std::chrono::milliseconds abort_limit{3000};

  // On all ranks at the same time. Throws DistBackendError, and what `patience` throws.
  NcclCommunicator(const NcclFunctions& nccl, const std::string& unique_id, int rank, int size, int device,
                   const NcclPatience& patience);
  // One of some of its ranks, which all of them make at the same time: of those with the same color, from 0
  // on, in the order of their keys. Null: this rank has none (no_color). Throws as the constructor; then this
  // one may not be used any more, except to end it.
  static constexpr int no_color = NCCL_SPLIT_NOCOLOR;
  std::unique_ptr<NcclCommunicator> split(int color, int key, const NcclPatience& patience);
  ~NcclCommunicator();  // aborts it unless it has ended
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] ncclComm_t handle() const { return handle_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] void* scratch() const { return scratch_; }  // one float on the device

  // Throws DistBackendError that names `call` unless it has succeeded.
  void require(ncclResult_t result, const char* call) const;
  // Throws DistBackendError if NCCL reports an error of what was started before.
  void check() const;

  // In order, together with the other ranks, after all operations. Throws as the constructor.
  void finish(const NcclPatience& patience);
  // While another thread may be in a call of NCCL, which returns then: ends what runs. An NCCL before 2.28
  // can only abort. Returns whether NCCL has done it within `limit`.
  bool interrupt(std::chrono::milliseconds limit) noexcept;
  // Ends its operations. NCCL may not return from that: false after `limit`; then the communicator, and what
  // its kernels use, stay NCCL's until the process ends.
  bool abort(std::chrono::milliseconds limit) noexcept;

 private:
  // Makes a communicator in a way that may not return.
  using Make = std::function<ncclResult_t(ncclComm_t* made, ncclConfig_t* config)>;
  NcclCommunicator(const NcclFunctions& nccl, int device) : nccl_(nccl), device_(device) {}
  void make(const char* call, const Make& make, const NcclPatience& patience);
  void make_stream();
  // Whether the call, on a thread of its own, has returned within `limit`.
  bool ends_within(std::chrono::milliseconds limit, std::function<ncclResult_t()> call) noexcept;
  [[nodiscard]] std::string text_of(ncclResult_t result) const;

  const NcclFunctions& nccl_;
  const int device_;
  std::atomic<ncclComm_t> handle_ = nullptr;  // null: it has ended
  cudaStream_t stream_ = nullptr;
  void* scratch_ = nullptr;
  std::atomic<bool> is_given_up_ = false;
};

}  // namespace dlaunch::internal
