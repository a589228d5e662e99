#include "runtime/sockets/descriptor.h"

#include <unistd.h>

#include <mutex>
#include <utility>

#include "runtime/base/close_on_fork.h"

namespace dlaunch::internal {

Descriptor::Descriptor(const std::function<int()>& make) {
  auto& registry = CloseOnFork<Descriptor>::get();
  const std::lock_guard lock(registry.mutex);
  fd_ = make();
  if (fd_ >= 0) registry.all.push_back(this);
}

Descriptor::~Descriptor() {
  if (fd_ < 0) return;
  auto& registry = CloseOnFork<Descriptor>::get();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.all, this);
  close(fd_);
}

Descriptor::Descriptor(Descriptor&& other) noexcept {
  if (other.fd_ < 0) return;
  auto& registry = CloseOnFork<Descriptor>::get();
  const std::lock_guard lock(registry.mutex);
  fd_ = std::exchange(other.fd_, -1);
  for (Descriptor*& one : registry.all) {
    if (one == &other) one = this;
  }
}

void Descriptor::close_in_child() { close(std::exchange(fd_, -1)); }

}  // namespace dlaunch::internal
