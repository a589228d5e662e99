// Which CUDA device a rank uses, and the current device of a thread.
#pragma once

#include <optional>
#include <string>

#include "runtime/cuda/cuda_functions.h"

namespace dlaunch::internal {

// What is known before a tensor has named a device.
struct DeviceHints {
  std::optional<int> named = {};       // by the program
  int current = 0;                     // the thread's
  std::optional<int> local_rank = {};  // LOCAL_RANK
  int count = 1;                       // of the devices that this process sees
};

// The named one, else the current one if the program has chosen one, else that of the local rank. Throws
// DistBackendError if there is no such device. Pure.
int choose_device(const DeviceHints& hints);

// The same with this process's device and environment.
int choose_device(const CudaFunctions& cuda, std::optional<int> named);

// Distinguishes the device from every other one of the job: host and PCI address.
std::string device_identity(const CudaFunctions& cuda, int device);

// Throws DistBackendError that names `call` unless it has succeeded.
void require_cuda(const CudaFunctions& cuda, cudaError_t result, const char* call);

// The device is the thread's current one for as long as this lives.
class DeviceScope {
 public:
  DeviceScope(const CudaFunctions& cuda, int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  const CudaFunctions& cuda_;
  int before_ = 0;
  bool has_changed_ = false;
};

}  // namespace dlaunch::internal
