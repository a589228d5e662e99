// Events of CUDA, used again when nobody holds them any more.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace dlaunch::internal {

using CudaEvent = std::shared_ptr<CUevent_st>;

// Any thread. Lives as long as one of its events.
class CudaEvents : public std::enable_shared_from_this<CudaEvents> {
 public:
  explicit CudaEvents(const CudaFunctions& cuda) : cuda_(cuda) {}
  ~CudaEvents() {
    for (const cudaEvent_t event : free_) (void)cuda_.cudaEventDestroy(event);
  }
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Of the current device, which is the same at each call. Throws DistBackendError.
  CudaEvent take() {
    cudaEvent_t event = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        event = free_.back();
        free_.pop_back();
      }
    }
    if (event == nullptr) {
      require_cuda(cuda_, cuda_.cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                   "cudaEventCreateWithFlags");
    }
    return {event, [pool = shared_from_this()](cudaEvent_t unused) {
              const std::lock_guard lock(pool->mutex_);
              pool->free_.push_back(unused);
            }};
  }

 private:
  const CudaFunctions& cuda_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // protected by mutex_
};

}  // namespace dlaunch::internal
