#include "runtime/staging/carried_memory.h"

#include <span>
#include <thread>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/staging/staged_backend.h"

namespace dlaunch::internal {

CarriedMemory::CarriedMemory(const ProcessGroup& group, Device device) : group_(group) {
  const std::string config = get_backend_config(group);
  if (config.find("cpu:") != std::string::npos) return;
  std::string problem;
  module_ = staging_module(problem);
  if (module_ == nullptr)
    throw DistBackendError("data of the host cannot be copied to a CUDA device: " + problem);
  device_ =
      device.kind == Device::Kind::cuda ? device : Device{Device::Kind::cuda, module_->current_device()};
  copies_ = module_->open(device_.index);
}

CarriedMemory::~CarriedMemory() {
  for (const DeviceCopies::Copy& piece : pieces_) module_->release_on_device(device_.index, piece.device);
}

template <class Number>
Tensor CarriedMemory::tensor_of(std::vector<Number>& numbers) {
  void* const data = place(numbers.data(), numbers.size() * sizeof(Number));
  return Tensor::from(static_cast<Number*>(data), {static_cast<std::int64_t>(numbers.size())}, device_);
}
template Tensor CarriedMemory::tensor_of(std::vector<std::int64_t>& numbers);
template Tensor CarriedMemory::tensor_of(std::vector<std::uint8_t>& numbers);

std::vector<Tensor> CarriedMemory::blocks(std::string& bytes, std::size_t count, std::size_t size) {
  std::vector<Tensor> all;
  all.reserve(count);
  auto* const data = static_cast<std::uint8_t*>(place(bytes.data(), bytes.size()));
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(
        Tensor::from(size > 0 ? data + i * size : nullptr, {static_cast<std::int64_t>(size)}, device_));
  }
  return all;
}

void* CarriedMemory::place(void* memory, std::size_t bytes) {
  if (module_ == nullptr || bytes == 0) return memory;
  void* const on_device = module_->allocate_on_device(device_.index, bytes);
  if (on_device == nullptr) {
    throw DistBackendError("there is no memory for " + std::to_string(bytes) + " bytes on " +
                           to_string(device_));
  }
  pieces_.push_back({on_device, static_cast<std::byte*>(memory), bytes});
  wait_for(copies_->to_device(std::span(&pieces_.back(), 1), nullptr));
  return on_device;
}

void CarriedMemory::fetch() {
  if (!pieces_.empty()) wait_for(copies_->to_host(pieces_, copies_->current()));
}

void CarriedMemory::wait_for(const DeviceCopies::Place& place) const {
  const Deadline deadline = deadline_after(group_.timeout());
  while (!copies_->is_reached(place)) {
    if (has_passed(deadline)) {
      throw DistBackendError("data of the host were not copied before the deadline: " + to_string(device_) +
                             " still works on what was started before it");
    }
    std::this_thread::yield();
  }
}

}  // namespace dlaunch::internal
