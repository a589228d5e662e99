#include "runtime/backends/nccl/nccl_detached_call.h"

#include <utility>

#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

NcclDetachedCall::NcclDetachedCall(std::function<ncclResult_t()> call,
                                   std::function<void(ncclResult_t)> abandoned) {
  start_thread([state = state_, call = std::move(call), abandoned = std::move(abandoned)] {
    const ncclResult_t result = call();
    std::unique_lock lock(state->mutex);
    state->has_returned = true;
    state->result = result;
    state->changed.notify_all();
    const bool is_abandoned = state->is_abandoned;
    lock.unlock();
    if (is_abandoned && abandoned) abandoned(result);
  }).detach();
}

NcclDetachedCall::~NcclDetachedCall() {
  const std::lock_guard lock(state_->mutex);
  state_->is_abandoned = !state_->has_returned;
}

bool NcclDetachedCall::wait_for(std::chrono::milliseconds length) {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, length, [this] { return state_->has_returned; });
}

ncclResult_t NcclDetachedCall::result() const {
  const std::lock_guard lock(state_->mutex);
  return state_->result;
}

}  // namespace dlaunch::internal
