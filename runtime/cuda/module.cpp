// The module cuda_staging.so, which libdlaunch.so loads when a group of a backend for CPU tensors gets a CUDA
// tensor.

#include <cstddef>
#include <memory>
#include <string>

#include "dlaunch/error.h"
#include "runtime/cuda/cuda_copies.h"
#include "runtime/cuda/cuda_library.h"
#include "runtime/staging/device_copies.h"

namespace {

using namespace dlaunch::internal;

std::string why_not() { return CudaLibrary::get().problem(); }

std::unique_ptr<DeviceCopies> open(int device) {
  return std::make_unique<CudaCopies>(CudaLibrary::get().functions(), device);
}

// For all devices of the process.
void* allocate(std::size_t bytes) noexcept {
  void* memory = nullptr;
  const cudaError_t result =
      CudaLibrary::get().functions().cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
  return result == cudaSuccess ? memory : nullptr;
}

void release(void* memory) noexcept { (void)CudaLibrary::get().functions().cudaFreeHost(memory); }

int current_device() {
  const CudaFunctions& cuda = CudaLibrary::get().functions();
  int device = 0;
  require_cuda(cuda, cuda.cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

void* allocate_on_device(int device, std::size_t bytes) noexcept {
  const CudaFunctions& cuda = CudaLibrary::get().functions();
  try {
    const DeviceScope scope(cuda, device);
    void* memory = nullptr;
    return cuda.cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
  } catch (const dlaunch::DistError&) {
    return nullptr;
  }
}

// Of the device and not of the thread, which may be the library's: to free memory waits for the current
// device.
void release_on_device(int device, void* memory) noexcept {
  const CudaFunctions& cuda = CudaLibrary::get().functions();
  try {
    const DeviceScope scope(cuda, device);
    (void)cuda.cudaFree(memory);
  } catch (const dlaunch::DistError&) {  // NOLINT(bugprone-empty-catch): the device is lost, and its memory
                                         // with it
  }
}

void enter_thread() noexcept {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  (void)CudaLibrary::get().functions().cudaThreadExchangeStreamCaptureMode(&mode);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const StagingModule dlaunch_staging_module = {
    why_not, open, allocate, release, current_device, allocate_on_device, release_on_device, enter_thread};
