#include "runtime/cuda/cuda_copies.h"

#include "dlaunch/error.h"
#include "dlaunch/stream.h"

namespace dlaunch::internal {

namespace {

cudaEvent_t event_of(const DeviceCopies::Place& place) { return static_cast<cudaEvent_t>(place.get()); }

}  // namespace

CudaCopies::CudaCopies(const CudaFunctions& cuda, int device) : cuda_(cuda), device_(device), events_(cuda) {
  int count = 0;
  require_cuda(cuda_, cuda_.cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  const DeviceScope scope(cuda_, choose_device(DeviceHints{.named = device, .count = count}));
  for (cudaStream_t* const stream : {&to_host_, &to_device_}) {
    require_cuda(cuda_, cuda_.cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0),
                 "cudaStreamCreateWithPriority");
  }
}

CudaCopies::~CudaCopies() {
  for (const cudaStream_t stream : {to_host_, to_device_}) (void)cuda_.cudaStreamDestroy(stream);
}

cudaStream_t CudaCopies::current_stream_here() const {
  return static_cast<cudaStream_t>(current_stream(device_).handle);
}

void CudaCopies::wait_in(cudaStream_t stream, const Place& after) {
  if (!after) return;
  require_cuda(cuda_, cuda_.cudaStreamWaitEvent(stream, event_of(after), 0), "cudaStreamWaitEvent");
}

CudaEvent CudaCopies::end_of(cudaStream_t stream) {
  CudaEvent end = events_.take();
  require_cuda(cuda_, cuda_.cudaEventRecord(end.get(), stream), "cudaEventRecord");
  return end;
}

DeviceCopies::Place CudaCopies::current() {
  const DeviceScope scope(cuda_, device_);
  return end_of(current_stream_here());
}

DeviceCopies::Place CudaCopies::to_host(std::span<const Copy> copies, const Place& after) {
  const std::lock_guard lock(mutex_);
  const DeviceScope scope(cuda_, device_);
  wait_in(to_host_, after);
  for (const Copy& copy : copies) {
    require_cuda(cuda_,
                 cuda_.cudaMemcpyAsync(copy.host, copy.device, copy.bytes, cudaMemcpyDeviceToHost, to_host_),
                 "cudaMemcpyAsync");
  }
  return end_of(to_host_);
}

DeviceCopies::Place CudaCopies::to_device(std::span<const Copy> copies, const Place& after) {
  const std::lock_guard lock(mutex_);
  const DeviceScope scope(cuda_, device_);
  wait_in(to_device_, after);
  for (const Copy& copy : copies) {
    require_cuda(
        cuda_, cuda_.cudaMemcpyAsync(copy.device, copy.host, copy.bytes, cudaMemcpyHostToDevice, to_device_),
        "cudaMemcpyAsync");
  }
  return end_of(to_device_);
}

void CudaCopies::copy_within(void* to, const void* from, std::size_t bytes) {
  const DeviceScope scope(cuda_, device_);
  require_cuda(cuda_, cuda_.cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, current_stream_here()),
               "cudaMemcpyAsync");
}

void CudaCopies::clear(void* memory, std::size_t bytes) {
  const DeviceScope scope(cuda_, device_);
  require_cuda(cuda_, cuda_.cudaMemsetAsync(memory, 0, bytes, current_stream_here()), "cudaMemsetAsync");
}

bool CudaCopies::is_reached(const Place& place) {
  if (!place) return true;
  const cudaError_t result = cuda_.cudaEventQuery(event_of(place));
  if (result == cudaErrorNotReady) {
    (void)cuda_.cudaGetLastError();  // it is none for the program, whose thread this may be
    return false;
  }
  require_cuda(cuda_, result, "cudaEventQuery");
  return true;
}

bool CudaCopies::order_current(const Place& place) noexcept {
  if (!place) return true;
  try {
    const DeviceScope scope(cuda_, device_);
    return cuda_.cudaStreamWaitEvent(current_stream_here(), event_of(place), 0) == cudaSuccess;
  } catch (const DistError&) {
    return false;
  }
}

bool CudaCopies::is_capturing() {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const DeviceScope scope(cuda_, device_);
  require_cuda(cuda_, cuda_.cudaStreamIsCapturing(current_stream_here(), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace dlaunch::internal
