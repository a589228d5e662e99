// Copies between a CUDA device and pinned memory of the host, on two streams of their own, and within the
// device, on the program's.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "runtime/cuda/cuda_events.h"
#include "runtime/staging/device_copies.h"

namespace dlaunch::internal {

class CudaCopies final : public DeviceCopies {
 public:
  // Throws DistBackendError.
  CudaCopies(const CudaFunctions& cuda, int device);
  ~CudaCopies() override;
  CudaCopies(const CudaCopies&) = delete;
  CudaCopies& operator=(const CudaCopies&) = delete;

  Place current() override;
  Place to_host(std::span<const Copy> copies, const Place& after) override;
  Place to_device(std::span<const Copy> copies, const Place& after) override;
  void copy_within(void* to, const void* from, std::size_t bytes) override;
  void clear(void* memory, std::size_t bytes) override;
  bool is_reached(const Place& place) override;
  bool order_current(const Place& place) noexcept override;
  bool is_capturing() override;

 private:
  [[nodiscard]] cudaStream_t current_stream_here() const;
  void wait_in(cudaStream_t stream, const Place& after);
  CudaEvent end_of(cudaStream_t stream);

  const CudaFunctions& cuda_;
  const int device_;
  CudaEvents events_;
  std::mutex mutex_;  // held while a stream gets a group of copies
  cudaStream_t to_host_ = nullptr;
  cudaStream_t to_device_ = nullptr;
};

}  // namespace dlaunch::internal
