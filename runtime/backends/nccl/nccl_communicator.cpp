#include "runtime/backends/nccl/nccl_communicator.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

bool wants_high_priority() { return process_environment("TORCH_NCCL_HIGH_PRIORITY").value_or("0") == "1"; }

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclFunctions& nccl, const std::string& unique_id, int rank,
                                   int size, int device, const NcclPatience& patience)
    : nccl_(nccl), device_(device) {
  ncclUniqueId id{};
  if (unique_id.size() != sizeof id) throw DistBackendError("rank 0 has another version of NCCL");
  std::memcpy(&id, unique_id.data(), sizeof id);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const DeviceScope scope(nccl_, device_);
  try {
    complete(nccl_.ncclCommInitRankConfig(&handle_, size, id, rank, &config), "ncclCommInitRankConfig",
             patience);
    make_stream();
  } catch (...) {
    abort(abort_limit);
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  abort(abort_limit);
  if (is_given_up_) return;
  int before = 0;
  if (nccl_.cudaGetDevice(&before) != cudaSuccess) return;
  (void)nccl_.cudaSetDevice(device_);
  if (stream_ != nullptr) (void)nccl_.cudaStreamDestroy(stream_);
  if (scratch_ != nullptr) (void)nccl_.cudaFree(scratch_);
  (void)nccl_.cudaSetDevice(before);
}

void NcclCommunicator::make_stream() {
  int least = 0;
  int greatest = 0;
  require_cuda(nccl_, nccl_.cudaDeviceGetStreamPriorityRange(&least, &greatest),
               "cudaDeviceGetStreamPriorityRange");
  // Not ordered with the default stream: only with what the program says.
  require_cuda(nccl_,
               nccl_.cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking,
                                                  wants_high_priority() ? greatest : least),
               "cudaStreamCreateWithPriority");
  require_cuda(nccl_, nccl_.cudaMalloc(&scratch_, sizeof(float)), "cudaMalloc");
  require_cuda(nccl_, nccl_.cudaMemsetAsync(scratch_, 0, sizeof(float), stream_), "cudaMemsetAsync");
}

std::string NcclCommunicator::text_of(ncclResult_t result) const {
  const char* const more = handle_ != nullptr ? nccl_.ncclGetLastError(handle_) : nullptr;
  std::string text = nccl_.ncclGetErrorString(result);
  if (more != nullptr && *more != '\0') text += std::string(" (") + more + ")";
  return text + "; with NCCL_DEBUG=INFO in the environment NCCL prints more";
}

void NcclCommunicator::complete(ncclResult_t result, const char* call, const NcclPatience& patience) const {
  while (result == ncclInProgress) {
    patience();
    ncclResult_t state = ncclSuccess;
    result = nccl_.ncclCommGetAsyncError(handle_, &state);
    if (result == ncclSuccess) result = state;
  }
  if (result != ncclSuccess) throw DistBackendError(std::string(call) + " failed: " + text_of(result));
}

void NcclCommunicator::check() const {
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl_.ncclCommGetAsyncError(handle_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw DistBackendError("NCCL reports an error of an operation that was started: " + text_of(result));
}

void NcclCommunicator::finish(const NcclPatience& patience) {
  const DeviceScope scope(nccl_, device_);
  complete(nccl_.ncclCommFinalize(handle_), "ncclCommFinalize", patience);
  (void)nccl_.ncclCommDestroy(std::exchange(handle_, nullptr));
}

bool NcclCommunicator::abort(std::chrono::milliseconds limit) noexcept {
  if (handle_ == nullptr) return true;
  struct Helper {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_returned = false;  // protected by mutex
  };
  try {
    const auto helper = std::make_shared<Helper>();
    std::thread([helper, &nccl = nccl_, device = device_, handle = std::exchange(handle_, nullptr)] {
      (void)nccl.cudaSetDevice(device);
      (void)nccl.ncclCommAbort(handle);
      const std::lock_guard lock(helper->mutex);
      helper->has_returned = true;
      helper->changed.notify_all();
    }).detach();
    std::unique_lock lock(helper->mutex);
    is_given_up_ = !helper->changed.wait_for(lock, limit, [&] { return helper->has_returned; });
  } catch (const std::exception&) {  // no thread, no memory
    is_given_up_ = true;
  }
  return !is_given_up_;
}

}  // namespace dlaunch::internal
