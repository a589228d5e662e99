#include "runtime/api/object_memory.h"

#include <span>
#include <thread>

#include "dlaunch/distributed.h"
#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/group/group_impl.h"
#include "runtime/staging/staged_backend.h"

namespace dlaunch::internal {

ObjectMemory::ObjectMemory(const ProcessGroup& group) : group_(group) {
  const std::string config = get_backend_config(group);
  if (config.find("cpu:") != std::string::npos) return;
  std::string problem;
  module_ = staging_module(problem);
  if (module_ == nullptr) throw DistBackendError("objects cannot be copied to a CUDA device: " + problem);
  device_ = {Device::Kind::cuda, module_->current_device()};
  copies_ = module_->open(device_.index);
}

ObjectMemory::~ObjectMemory() {
  for (const DeviceCopies::Copy& piece : pieces_) module_->release_on_device(piece.device);
}

Tensor ObjectMemory::of(std::vector<std::int64_t>& numbers) {
  void* const data = place(numbers.data(), numbers.size() * sizeof(std::int64_t));
  return Tensor::from(static_cast<std::int64_t*>(data), {static_cast<std::int64_t>(numbers.size())}, device_);
}

std::vector<Tensor> ObjectMemory::blocks(std::string& bytes, std::size_t count, std::size_t size) {
  std::vector<Tensor> all;
  all.reserve(count);
  auto* const data = static_cast<std::uint8_t*>(place(bytes.data(), bytes.size()));
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(
        Tensor::from(size > 0 ? data + i * size : nullptr, {static_cast<std::int64_t>(size)}, device_));
  }
  return all;
}

void* ObjectMemory::place(void* memory, std::size_t bytes) {
  if (module_ == nullptr || bytes == 0) return memory;
  void* const on_device = module_->allocate_on_device(device_.index, bytes);
  if (on_device == nullptr) {
    throw DistBackendError("there is no memory for an object of " + std::to_string(bytes) + " bytes on " +
                           to_string(device_));
  }
  pieces_.push_back({on_device, static_cast<std::byte*>(memory), bytes});
  wait_for(copies_->to_device(std::span(&pieces_.back(), 1), nullptr));
  return on_device;
}

void ObjectMemory::fetch() {
  if (!pieces_.empty()) wait_for(copies_->to_host(pieces_, copies_->current()));
}

void ObjectMemory::wait_for(const DeviceCopies::Place& place) const {
  const Deadline deadline = deadline_after(GroupImpl::of(group_).timeout());
  while (!copies_->is_reached(place)) {
    if (has_passed(deadline)) {
      throw DistBackendError("an object was not copied before the deadline: " + to_string(device_) +
                             " still works on what was started before it");
    }
    std::this_thread::yield();
  }
}

}  // namespace dlaunch::internal
