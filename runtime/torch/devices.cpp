#include "runtime/torch/devices.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "dlaunch/stream.h"

namespace dlaunch::torch::internal {

std::optional<std::string> why_not_on(const at::Device& device) {
  if (device.is_cpu() || (device.is_cuda() && stream_source() != nullptr)) return std::nullopt;
  const std::string place = "is on " + device.str();
  if (device.is_cuda()) return place + "; this libdlaunch_torch was built with a LibTorch without CUDA";
  return place + "; libdlaunch takes tensors of the CPU and of CUDA devices";
}

Device device_of(const at::Device& device) {
  return device.is_cuda() ? Device{Device::Kind::cuda, device.index()} : Device();
}

at::Device device_of(const Device& device) {
  if (device.kind == Device::Kind::cpu) return at::kCPU;
  return {at::kCUDA, static_cast<at::DeviceIndex>(device.index)};
}

void keep_for_current_stream(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return;
  const c10::impl::VirtualGuardImpl cuda(at::kCUDA);
  cuda.recordDataPtrOnStream(tensor.storage().data_ptr(), cuda.getStream(tensor.device()));
}

}  // namespace dlaunch::torch::internal
