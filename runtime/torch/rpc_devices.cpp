#include "runtime/torch/rpc_devices.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <memory>
#include <vector>

#include "dlaunch/rpc_devices.h"

namespace dlaunch::torch::internal {

namespace {

using Streams = std::vector<c10::Stream>;

// Those that are current on this thread, of all devices.
std::shared_ptr<void> streams_here() {
  auto streams = std::make_shared<Streams>();
  for (int i = 0; i < device_count(); ++i) {
    const c10::Device device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(i));
    streams->push_back(c10::impl::getDeviceGuardImpl(device.type())->getStream(device));
  }
  return streams;
}

std::shared_ptr<void> enter(const std::shared_ptr<void>& streams) {
  return std::make_shared<c10::MultiStreamGuard>(*static_cast<const Streams*>(streams.get()));
}

[[maybe_unused]] const bool has_hooks =
    (rpc::rpc_detail::set_device_hooks({device_count, streams_here, enter}), true);

}  // namespace

int device_count() {
  if (!c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->deviceCount();
}

std::int16_t device_number(const at::Tensor& tensor) {
  return tensor.is_cuda() ? std::int16_t{tensor.device().index()} : dlaunch::internal::on_cpu;
}

}  // namespace dlaunch::torch::internal
