// Events of CUDA, used again when nobody else holds them any more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/cuda/cuda_device.h"

namespace dlaunch::internal {

using CudaEvent = std::shared_ptr<CUevent_st>;

// Any thread. Its events may live longer. An event that is given back needs no memory order: all that its
// last holder did with it were calls of CUDA.
class CudaEvents {
 public:
  explicit CudaEvents(const CudaFunctions& cuda) : cuda_(cuda) {}
  CudaEvents(const CudaEvents&) = delete;
  CudaEvents& operator=(const CudaEvents&) = delete;

  // Of the current device, which is the same at each call. Throws DistBackendError. Without system calls and
  // memory once there are as many as the program holds at a time.
  CudaEvent take() {
    const std::lock_guard lock(mutex_);
    // They are taken in turn, and given back in nearly the same order.
    for (std::size_t looks = 0; looks < std::min(most_looks, all_.size()); ++looks) {
      next_ = next_ + 1 < all_.size() ? next_ + 1 : 0;
      if (all_[next_].use_count() == 1) return all_[next_];
    }
    cudaEvent_t event = nullptr;
    require_cuda(cuda_, cuda_.cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
    const auto destroy = [&cuda = cuda_](cudaEvent_t unused) { (void)cuda.cudaEventDestroy(unused); };
    return all_.emplace_back(event, destroy);
  }

  // `kept`, if the caller alone holds it, else another one in its place: without a lock in the first case.
  const CudaEvent& renew(CudaEvent& kept) {
    constexpr int own_and_callers = 2;
    if (!kept || kept.use_count() > own_and_callers) kept = take();
    return kept;
  }

 private:
  static constexpr std::size_t most_looks = 2;

  const CudaFunctions& cuda_;
  std::mutex mutex_;
  // protected by mutex_
  std::vector<CudaEvent> all_;
  std::size_t next_ = 0;
};

}  // namespace dlaunch::internal
