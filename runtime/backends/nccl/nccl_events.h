// CUDA events, used again when nobody holds them any more.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/backends/nccl/nccl_device.h"

namespace dlaunch::internal {

using NcclEvent = std::shared_ptr<CUevent_st>;

// Any thread. Lives as long as one of its events.
class NcclEvents : public std::enable_shared_from_this<NcclEvents> {
 public:
  explicit NcclEvents(const NcclFunctions& cuda) : cuda_(cuda) {}
  ~NcclEvents() {
    for (const cudaEvent_t event : free_) (void)cuda_.cudaEventDestroy(event);
  }
  NcclEvents(const NcclEvents&) = delete;
  NcclEvents& operator=(const NcclEvents&) = delete;

  // Of the current device, which is the same at each call. Throws DistBackendError.
  NcclEvent take() {
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
  const NcclFunctions& cuda_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> free_;  // protected by mutex_
};

}  // namespace dlaunch::internal
