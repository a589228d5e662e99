#include "runtime/data_parallel/gradient_device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "dlaunch/shared_memory.h"
#include "runtime/staging/staged_backend.h"

namespace dlaunch::internal {

GradientDevice::GradientDevice(Device device, ProcessGroup group)
    : group_(std::move(group)), device_(device) {
  if (device.kind == Device::Kind::cpu) return;
  std::string problem;
  module_ = staging_module(problem);
  if (module_ == nullptr) throw DistBackendError(to_string(device) + " cannot be used: " + problem);
  copies_ = module_->open(device.index);
}

GradientDevice::Block GradientDevice::allocate(std::size_t bytes) {
  if (is_cpu()) {
    const auto block = std::make_shared<SharedMemory>(group_.allocate_shared(bytes));
    return {{block, block->data()}, block->is_shared()};
  }
  void* const memory = module_->allocate_on_device(device_.index, bytes);
  if (memory == nullptr) {
    throw DistBackendError("there is no memory for gradients of " + std::to_string(bytes) + " bytes on " +
                           to_string(device_));
  }
  const auto release = [module = module_, device = device_.index](std::byte* unused) {
    module->release_on_device(device, unused);
  };
  Block block{{static_cast<std::byte*>(memory), release}, false};
  copies_->clear(memory, bytes);
  return block;
}

void GradientDevice::copy(const Tensor& to, const Tensor& from) const {
  if (to.data() == from.data() || to.nbytes() == 0) return;
  if (is_cpu()) {
    std::memcpy(to.data(), from.data(), to.nbytes());
  } else {
    copies_->copy_within(to.data(), from.data(), to.nbytes());
  }
}

void GradientDevice::zero(const Tensor& tensor) const {
  if (tensor.nbytes() == 0) return;
  if (is_cpu()) {
    std::memset(tensor.data(), 0, tensor.nbytes());
  } else {
    copies_->clear(tensor.data(), tensor.nbytes());
  }
}

void GradientDevice::order_current(const DeviceCopies::Place& place) const {
  if (!copies_->order_current(place))
    throw DistBackendError("the current stream of " + to_string(device_) + " cannot wait for another one");
}

void GradientDevice::enter() {
  if (is_cpu() || std::ranges::find(streams_, stream()) != streams_.end()) return;
  order_current(end_of_last_);
  streams_.push_back(stream());
}

void GradientDevice::join() {
  if (is_cpu()) return;
  for (const Stream& other : streams_) {
    if (other == stream()) continue;
    DeviceCopies::Place end;
    {
      const StreamGuard guard(other, device_.index);
      end = copies_->current();
    }
    order_current(end);
  }
}

void GradientDevice::end_step() {
  if (is_cpu()) return;
  end_of_last_ = copies_->current();
  streams_.clear();
}

}  // namespace dlaunch::internal
