#include "runtime/cuda/cuda_device.h"

#include <cstdlib>
#include <fstream>

#include "dlaunch/error.h"
#include "runtime/base/host_name.h"
#include "runtime/base/process_environment.h"

namespace dlaunch::internal {

int choose_device(const DeviceHints& hints) {
  const auto exists = [&](int device) { return device >= 0 && device < hints.count; };
  const std::string seen = "this process sees " + std::to_string(hints.count) +
                           (hints.count == 1 ? " CUDA device" : " CUDA devices");
  if (hints.named) {
    if (exists(*hints.named)) return *hints.named;
    throw DistBackendError("there is no CUDA device " + std::to_string(*hints.named) + ": " + seen);
  }
  if (hints.current != 0 || !hints.local_rank || hints.count == 1) return hints.current;
  if (exists(*hints.local_rank)) return *hints.local_rank;
  throw DistBackendError("there is no CUDA device for LOCAL_RANK " + std::to_string(*hints.local_rank) +
                         ": " + seen + "; start fewer ranks on this node, or name a device (device_id)");
}

int choose_device(const CudaFunctions& cuda, std::optional<int> named) {
  DeviceHints hints{.named = named};
  require_cuda(cuda, cuda.cudaGetDeviceCount(&hints.count), "cudaGetDeviceCount");
  require_cuda(cuda, cuda.cudaGetDevice(&hints.current), "cudaGetDevice");
  if (const auto text = process_environment("LOCAL_RANK")) hints.local_rank = std::atoi(text->c_str());
  return choose_device(hints);
}

std::string device_identity(const CudaFunctions& cuda, int device) {
  char address[64] = {};
  require_cuda(cuda, cuda.cudaDeviceGetPCIBusId(address, sizeof address, device), "cudaDeviceGetPCIBusId");
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);  // containers of a host share it
  return (boot.empty() ? host_name() : boot) + " " + address;
}

void require_cuda(const CudaFunctions& cuda, cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw DistBackendError(std::string(call) + " failed: " + cuda.cudaGetErrorString(result));
}

DeviceScope::DeviceScope(const CudaFunctions& cuda, int device) : cuda_(cuda) {
  require_cuda(cuda, cuda.cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ == device) return;
  require_cuda(cuda, cuda.cudaSetDevice(device), "cudaSetDevice");
  has_changed_ = true;
}

DeviceScope::~DeviceScope() {
  if (has_changed_) (void)cuda_.cudaSetDevice(before_);
}

}  // namespace dlaunch::internal
