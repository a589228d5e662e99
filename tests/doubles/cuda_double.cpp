// A double of the CUDA runtime (libcudart) for tests on machines without a GPU: the entry points that dlaunch
// and its tests use, with the real ones' meaning. See cuda_memory.h and cuda_streams.h.
//
//   CUDA_DOUBLE_DEVICES=8       how many devices there are; 0: as without a GPU
//   CUDA_DOUBLE_SEED=1          of the order between streams
//   CUDA_DOUBLE_CAPABILITY=80   compute capability 8.0; else 9.0

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/doubles/cuda_device.h"

using doubles::Place;
using doubles::StreamPointer;

struct CUstream_st {
  StreamPointer stream;
};
struct CUevent_st {
  std::mutex mutex;
  Place place;  // protected by mutex; no stream: not recorded yet
};

namespace {

thread_local int device_of_thread = 0;
std::atomic<bool> is_broken = false;

int devices() {
  const char* const text = std::getenv("CUDA_DOUBLE_DEVICES");
  return text != nullptr ? std::atoi(text) : 8;
}

cudaError_t state() {
  if (devices() <= 0) return cudaErrorNoDevice;
  return is_broken ? cudaErrorIllegalAddress : cudaSuccess;
}

cudaError_t state_outside_captures() {
  const cudaError_t error = doubles::streams().check_no_capture();
  return error != cudaSuccess ? error : state();
}

Place place_of(cudaEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->place;
}

std::byte* device_bytes(const void* address, std::size_t bytes, const char* what) {
  std::byte* const found = doubles::device_memory().find(address, bytes);
  if (found == nullptr) doubles::report_illegal_address(what);
  return found;
}

// Carries it out at the time of the call of `step`, on the thread of the streams.
doubles::Step copy(void* to, const void* from, std::size_t bytes) {
  doubles::DeviceMemory& memory = doubles::device_memory();
  const bool to_device = memory.is_device(to);
  if (memory.is_device(from)) {
    const bool to_pinned = doubles::pinned_memory().holds(to, bytes);
    return [=] {
      if (to_pinned && !doubles::pinned_memory().holds(to, bytes)) {
        doubles::report_illegal_address("cudaMemcpyAsync to pinned memory that was freed");
        return true;
      }
      const std::byte* const source = device_bytes(from, bytes, "cudaMemcpyAsync");
      std::byte* const target =
          to_device ? device_bytes(to, bytes, "cudaMemcpyAsync") : static_cast<std::byte*>(to);
      if (source != nullptr && target != nullptr) std::memmove(target, source, bytes);
      return true;
    };
  }
  const auto* const begin = static_cast<const std::byte*>(from);
  if (doubles::pinned_memory().holds(from, bytes)) {
    return [=] {
      std::byte* const target =
          to_device ? device_bytes(to, bytes, "cudaMemcpyAsync") : static_cast<std::byte*>(to);
      if (!doubles::pinned_memory().holds(from, bytes)) {
        doubles::report_illegal_address("cudaMemcpyAsync from pinned memory that was freed");
      } else if (target != nullptr) {
        std::memcpy(target, begin, bytes);
      }
      return true;
    };
  }
  // Memory that is not page-locked is read before the call returns.
  return [=, values = std::vector<std::byte>(begin, begin + bytes)] {
    std::byte* const target =
        to_device ? device_bytes(to, bytes, "cudaMemcpyAsync") : static_cast<std::byte*>(to);
    if (target != nullptr) std::memcpy(target, values.data(), bytes);
    return true;
  };
}

}  // namespace

namespace doubles {

DeviceMemory& device_memory() {
  static DeviceMemory& only = *new DeviceMemory;
  return only;
}

PinnedMemory& pinned_memory() {
  static PinnedMemory& only = *new PinnedMemory;
  return only;
}

Streams& streams() {
  static Streams& only = *new Streams;
  return only;
}

StreamPointer stream_of(void* handle) {
  const auto* const stream = static_cast<cudaStream_t>(handle);
  return stream != nullptr ? stream->stream : streams().default_stream(device_of_thread);
}

int current_device() { return device_of_thread; }

void report_illegal_address(const char* what) {
  std::fprintf(stderr, "CUDA double: %s touched device memory that is not allocated\n", what);
  is_broken = true;
}

}  // namespace doubles

extern "C" {
#define DOUBLE __attribute__((visibility("default")))

DOUBLE cudaError_t cudaDriverGetVersion(int* version) {
  *version = devices() > 0 ? CUDART_VERSION : 0;
  return cudaSuccess;
}
DOUBLE cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return devices() > 0 ? cudaSuccess : cudaErrorNoDevice;
}
DOUBLE cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return state();
}
DOUBLE cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  device_of_thread = device;
  return state();
}
DOUBLE cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  const char* const text = std::getenv("CUDA_DOUBLE_CAPABILITY");
  const int capability = text != nullptr ? std::atoi(text) : 90;
  if (attribute != cudaDevAttrComputeCapabilityMajor && attribute != cudaDevAttrComputeCapabilityMinor)
    return cudaErrorInvalidValue;
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability / 10 : capability % 10;
  return cudaSuccess;
}
DOUBLE cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (device < 0 || device >= devices()) return cudaErrorInvalidDevice;
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}
DOUBLE cudaError_t cudaDeviceSynchronize() {
  doubles::streams().wait_for_device(device_of_thread);
  return state();
}
DOUBLE const char* cudaGetErrorString(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case cudaSuccess:
      return "no error";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    default:
      return "another error of the double";
  }
}
DOUBLE cudaError_t cudaGetLastError() { return state(); }

DOUBLE cudaError_t cudaMalloc(void** address, size_t bytes) {
  if (const cudaError_t error = state_outside_captures(); error != cudaSuccess) return error;
  *address = doubles::device_memory().allocate(bytes);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
// Waits for the device, as the real one does.
DOUBLE cudaError_t cudaFree(void* address) {
  if (address == nullptr) return state();
  if (const cudaError_t error = doubles::streams().check_no_capture(); error != cudaSuccess) return error;
  doubles::streams().wait_for_device(device_of_thread);
  return doubles::device_memory().free(address) ? state() : cudaErrorInvalidValue;
}
// In the order of the stream, and of no other.
DOUBLE cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  doubles::streams().add(doubles::stream_of(stream), [address] {
    if (!doubles::device_memory().free(address)) doubles::report_illegal_address("cudaFreeAsync");
    return true;
  });
  return state();
}
// Unlike the real one it waits for nothing: a copy that still uses the memory is reported.
DOUBLE cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned /*flags*/) {
  if (const cudaError_t error = state_outside_captures(); error != cudaSuccess) return error;
  *address = doubles::pinned_memory().allocate(bytes);
  return *address != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
DOUBLE cudaError_t cudaFreeHost(void* address) {
  return doubles::pinned_memory().free(address) ? state() : cudaErrorInvalidValue;
}
DOUBLE cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                                   cudaStream_t stream) {
  if (bytes == 0) return state();
  for (const void* const address : {static_cast<const void*>(to), from}) {
    // As the real one, which takes it for the address of host memory.
    if (doubles::device_memory().is_device(address) && !doubles::device_memory().find(address, bytes))
      return cudaErrorInvalidValue;
  }
  doubles::streams().add(doubles::stream_of(stream), copy(to, from, bytes));
  return state();
}
DOUBLE cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  // Memory that is not page-locked has been read: the real one does not wait until it is on the device.
  if (!doubles::device_memory().is_device(from) && !doubles::pinned_memory().holds(from, bytes))
    return error != cudaSuccess ? error : state();
  doubles::streams().wait(doubles::streams().end_of(doubles::stream_of(nullptr)));
  return error != cudaSuccess ? error : state();
}
DOUBLE cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  doubles::streams().add(doubles::stream_of(stream), [=] {
    std::byte* const target = device_bytes(address, bytes, "cudaMemsetAsync");
    if (target != nullptr) std::memset(target, value, bytes);
    return true;
  });
  return state();
}

DOUBLE cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return state();
}
DOUBLE cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  if (state() != cudaSuccess) return state();
  *stream = new CUstream_st{doubles::streams().make(device_of_thread, (flags & cudaStreamNonBlocking) == 0)};
  return cudaSuccess;
}
DOUBLE cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  doubles::streams().forget(stream->stream);
  delete stream;
  return state();
}
DOUBLE cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (doubles::streams().capture_status(doubles::stream_of(stream)) != cudaStreamCaptureStatusNone)
    return cudaErrorStreamCaptureUnsupported;
  doubles::streams().wait(doubles::streams().end_of(doubles::stream_of(stream)));
  return state();
}
DOUBLE cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
  const Place place = place_of(event);
  if (place.capture && !doubles::streams().is_open(place.capture)) return cudaErrorCapturedEvent;
  if (place.stream) doubles::streams().add(doubles::stream_of(stream), [] { return true; }, {place});
  return state();
}
// It may block, and no other stream waits for it.
DOUBLE cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  enum class Stage { waiting, running, returned };
  doubles::streams().add_made(doubles::stream_of(stream), [=]() -> doubles::Step {
    return [=, stage = std::make_shared<std::atomic<Stage>>(Stage::waiting)] {
      if (*stage == Stage::waiting) {
        *stage = Stage::running;
        std::thread([=] {
          function(data);
          *stage = Stage::returned;
        }).detach();
      }
      return *stage == Stage::returned;
    };
  });
  return state();
}

DOUBLE cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  if (state() != cudaSuccess) return state();
  *event = new CUevent_st;
  return cudaSuccess;
}
DOUBLE cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return state();
}
DOUBLE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const StreamPointer where = doubles::stream_of(stream);
  doubles::streams().add(where, [] { return true; });
  const Place place = doubles::streams().end_of(where);
  const std::lock_guard lock(event->mutex);
  event->place = place;
  return state();
}
DOUBLE cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Place place = place_of(event);
  if (place.capture) return cudaErrorCapturedEvent;
  if (const cudaError_t error = doubles::streams().check_no_capture(); error != cudaSuccess) return error;
  if (place.stream && !doubles::streams().is_reached(place)) return cudaErrorNotReady;
  return state();
}
DOUBLE cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Place place = place_of(event);
  if (place.capture) return cudaErrorCapturedEvent;
  if (place.stream) doubles::streams().wait(place);
  return state();
}

}  // extern "C"
