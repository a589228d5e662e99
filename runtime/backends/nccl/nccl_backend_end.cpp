// How a group of NCCL ends: in order, by an abort, or by what its watchdog finds.

#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/backends/nccl/nccl_backend.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"

namespace dlaunch::internal {

namespace {

using std::chrono::milliseconds;

// How long a thread is waited for that is inside NCCL when the group has ended: first, until it is
// interrupted, and after that.
constexpr milliseconds before_interrupt(100);
constexpr milliseconds after_interrupt(1000);
// How long shutdown() waits for running operations and for the other ranks.
constexpr milliseconds shutdown_limit(5000);

}  // namespace

NcclWatchdog::Outside NcclBackend::outside() {
  return {.enter_thread =
              [this] {
                // Its queries must not end the capture of a graph in another thread.
                cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
                (void)nccl_.cudaThreadExchangeStreamCaptureMode(&mode);
              },
          .is_reached =
              [this](const CudaEvent& event) {
                const cudaError_t result = nccl_.cudaEventQuery(event.get());
                if (result == cudaErrorNotReady) return false;
                require_cuda(nccl_, result, "cudaEventQuery");
                return true;
              },
          .check = [this] { check_communicator(); },
          .explain_delay =
              [this](std::uint64_t late) {
                if (!control_plane_) return;
                if (late > 0) control_plane_->explain_delay(late);
                const std::vector<int> gone = control_plane_->departed();
                if (!gone.empty()) throw DistNetworkError(left_the_group, {.peer = gone.front()});
              },
          .give_up = [this](std::exception_ptr reason) { return give_up(std::move(reason)); },
          .after_failure = [this](const std::exception_ptr& reason) { end_process_if_wanted(reason); }};
}

// A thread that is inside NCCL finds the error itself.
void NcclBackend::check_communicator() {
  if (const std::unique_lock lock(mutex_, std::try_to_lock); lock && communicator_) communicator_->check();
  if (check_) check_();
}

std::exception_ptr NcclBackend::give_up(std::exception_ptr reason) {
  if (is_leaving_) return reason;
  has_failed_by_itself_ = !is_aborted_;
  return end_communicator(std::move(reason));
}

// The host may have waited for none of these operations, and go on with what they have not computed.
void NcclBackend::end_process_if_wanted(const std::exception_ptr& reason) const {
  if (!failure_ends_process_ || !has_failed_by_itself_) return;
  try {
    std::rethrow_exception(reason);
  } catch (const DistError& e) {
    throw DistError(e.reason() +
                        "; what the GPU computes from now on may be wrong, so the process ends "
                        "(TORCH_NCCL_ASYNC_ERROR_HANDLING=2: it goes on, and the group's next call fails)",
                    {.rank = rank_, .group = group_});
  }
}

std::exception_ptr NcclBackend::end_communicator(std::exception_ptr reason) {
  std::unique_lock lock(mutex_, std::defer_lock);
  constexpr std::chrono::milliseconds limit = NcclCommunicator::abort_limit;
  bool has_lock = lock.try_lock_for(before_interrupt);
  bool has_ended = true;
  if (NcclCommunicator* const busy = connected_; !has_lock && busy != nullptr) {
    has_ended = busy->interrupt(limit);
    has_lock = lock.try_lock_for(after_interrupt);
  }
  if (has_lock && has_ended && communicator_) has_ended = communicator_->abort(limit);
  if (has_lock && has_ended) return reason;
  const char* const note = has_lock
                               ? "NCCL did not end the communicator within 3 s: its kernels may still run"
                               : "a thread does not return from NCCL: its kernels may still run";
  if (log_) log_(note);
  try {
    std::rethrow_exception(reason);
  } catch (const DistNetworkError& e) {
    return std::make_exception_ptr(DistNetworkError(e.reason() + "; " + note, e.context()));
  } catch (const DistError& e) {
    return std::make_exception_ptr(DistBackendError(e.reason() + "; " + note, e.context()));
  }
}

void NcclBackend::abort(const std::string& reason) noexcept {
  if (!end_.is_set()) is_aborted_ = true;
  end_.set(std::make_exception_ptr(DistNetworkError(reason)));
  watchdog_.wake();
}

void NcclBackend::shutdown() noexcept {
  const Deadline deadline = deadline_after(shutdown_limit);
  try {
    if (!watchdog_.drain(deadline)) return abort("the group was destroyed before an operation had ended");
    const std::unique_lock lock(mutex_);
    if (communicator_)
      communicator_->finish(patience(deadline, check_, "the ranks did not end their communicator"));
  } catch (const std::exception& e) {
    if (log_) log_(std::string("the NCCL communicator was not ended in order: ") + e.what());
  }
}

void NcclBackend::leave(Deadline /*deadline*/) noexcept {
  is_leaving_ = true;
  abort("the process ends");
}

}  // namespace dlaunch::internal
