#include "runtime/backends/nccl/nccl_communicator.h"

#include <cstring>
#include <exception>
#include <memory>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/backends/nccl/nccl_detached_call.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

namespace {

using std::chrono::milliseconds;

// Of the patience, which may ask the store: many ranks wait at the same time.
constexpr milliseconds between_looks(100);

bool wants_high_priority() { return process_environment("TORCH_NCCL_HIGH_PRIORITY").value_or("0") == "1"; }

// Of a call that may not return. Throws what `patience` throws.
ncclResult_t result_of(std::function<ncclResult_t()> call, std::function<void(ncclResult_t)> abandoned,
                       const NcclPatience& patience) {
  NcclDetachedCall waited_for(std::move(call), std::move(abandoned));
  while (!waited_for.wait_for(between_looks)) patience();
  return waited_for.result();
}

}  // namespace

NcclCommunicator::NcclCommunicator(const NcclFunctions& nccl, const std::string& unique_id, int rank,
                                   int size, int device, const NcclPatience& patience)
    : NcclCommunicator(nccl, device) {
  ncclUniqueId id{};
  if (unique_id.size() != sizeof id) throw DistBackendError("rank 0 has another version of NCCL");
  std::memcpy(&id, unique_id.data(), sizeof id);
  const auto init = [&nccl, id, rank, size](ncclComm_t* made, ncclConfig_t* config) {
    return nccl.ncclCommInitRankConfig(made, size, id, rank, config);
  };
  make("ncclCommInitRankConfig", init, patience);
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(int color, int key, const NcclPatience& patience) {
  std::unique_ptr<NcclCommunicator> part(new NcclCommunicator(nccl_, device_));
  const auto split = [&nccl = nccl_, handle = handle_.load(), color, key](ncclComm_t* made,
                                                                          ncclConfig_t* config) {
    return nccl.ncclCommSplit(handle, color, key, made, config);
  };
  part->make("ncclCommSplit", split, patience);
  return part->handle_ != nullptr ? std::move(part) : nullptr;
}

void NcclCommunicator::make(const char* call, const Make& make, const NcclPatience& patience) {
  const auto made = std::make_shared<ncclComm_t>();
  const auto make_here = [made, make, &nccl = nccl_, device = device_]() -> ncclResult_t {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    if (nccl.cudaSetDevice(device) != cudaSuccess) return ncclUnhandledCudaError;
    return make(made.get(), &config);
  };
  // Nobody knows a communicator that is ready too late.
  const auto abandoned = [made, &nccl = nccl_](ncclResult_t result) {
    if (result == ncclSuccess && *made != nullptr) (void)nccl.ncclCommAbort(*made);
  };
  require(result_of(make_here, abandoned, patience), call);
  handle_ = *made;
  if (handle_ == nullptr) return;
  try {
    const DeviceScope scope(nccl_, device_);
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
  const char* const more = nccl_.ncclGetLastError(handle_);
  std::string text = nccl_.ncclGetErrorString(result);
  if (more != nullptr && *more != '\0') text += std::string(" (") + more + ")";
  return text + "; with NCCL_DEBUG=INFO in the environment NCCL prints more";
}

void NcclCommunicator::require(ncclResult_t result, const char* call) const {
  if (result != ncclSuccess) throw DistBackendError(std::string(call) + " failed: " + text_of(result));
}

void NcclCommunicator::check() const {
  if (handle_ == nullptr) return;
  ncclResult_t state = ncclSuccess;
  ncclResult_t result = nccl_.ncclCommGetAsyncError(handle_, &state);
  if (result == ncclSuccess) result = state;
  if (result == ncclSuccess || result == ncclInProgress) return;
  throw DistBackendError("NCCL reports an error of an operation that was started: " + text_of(result));
}

// From here on the communicator is that thread's.
void NcclCommunicator::finish(const NcclPatience& patience) {
  const ncclComm_t handle = handle_.exchange(nullptr);
  if (handle == nullptr) return;
  const auto end = [&nccl = nccl_, device = device_, handle] {
    (void)nccl.cudaSetDevice(device);
    const ncclResult_t result = nccl.ncclCommFinalize(handle);
    (void)(result == ncclSuccess ? nccl.ncclCommDestroy(handle) : nccl.ncclCommAbort(handle));
    return result;
  };
  is_given_up_ = true;
  const ncclResult_t result = result_of(end, {}, patience);
  is_given_up_ = false;
  require(result, "ncclCommFinalize");
}

bool NcclCommunicator::ends_within(milliseconds limit, std::function<ncclResult_t()> call) noexcept {
  try {
    NcclDetachedCall ending(std::move(call));
    if (ending.wait_for(limit)) return true;
  } catch (const std::exception&) {  // no thread, no memory
  }
  is_given_up_ = true;
  return false;
}

bool NcclCommunicator::interrupt(milliseconds limit) noexcept {
  const ncclComm_t handle = handle_;
  if (handle == nullptr) return true;
  if (nccl_.ncclCommRevoke == nullptr) return abort(limit);
  const auto was_revoked = std::make_shared<std::atomic<bool>>(false);
  const bool has_returned = ends_within(limit, [&nccl = nccl_, device = device_, handle, was_revoked] {
    (void)nccl.cudaSetDevice(device);
    const ncclResult_t result = nccl.ncclCommRevoke(handle, 0);
    *was_revoked = result == ncclSuccess;
    return result;
  });
  return has_returned && (*was_revoked || abort(limit));
}

bool NcclCommunicator::abort(milliseconds limit) noexcept {
  const ncclComm_t handle = handle_.exchange(nullptr);
  if (handle == nullptr) return !is_given_up_;
  return ends_within(limit, [&nccl = nccl_, device = device_, handle] {
    (void)nccl.cudaSetDevice(device);
    return nccl.ncclCommAbort(handle);
  });
}

}  // namespace dlaunch::internal
