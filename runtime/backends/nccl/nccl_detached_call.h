// A call of NCCL that may not return, on a thread of its own: the thread that needs it can stop waiting.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include <nccl.h>

namespace dlaunch::internal {

class NcclDetachedCall {
 public:
  // Starts `call`. If it returns after this object's end, its thread calls `abandoned` (unless that is empty)
  // with the result. Both must not refer to what may end earlier. Throws DistBackendError if there is no
  // thread.
  explicit NcclDetachedCall(std::function<ncclResult_t()> call,
                            std::function<void(ncclResult_t)> abandoned = {});
  ~NcclDetachedCall();
  NcclDetachedCall(const NcclDetachedCall&) = delete;
  NcclDetachedCall& operator=(const NcclDetachedCall&) = delete;

  // Whether it has returned within that time.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds length);
  // REQUIRES: it has returned.
  [[nodiscard]] ncclResult_t result() const;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    // protected by mutex
    bool has_returned = false;
    bool is_abandoned = false;
    ncclResult_t result = ncclSuccess;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace dlaunch::internal
