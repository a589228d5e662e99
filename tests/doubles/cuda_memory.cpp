#include "tests/doubles/cuda_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/doubles/memory_marks.h"

namespace doubles {

namespace {

constexpr std::size_t alignment = 512;

}  // namespace

DeviceMemory::DeviceMemory() {
  descriptor_ = memfd_create("device memory of the CUDA double", MFD_CLOEXEC);
  if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    std::perror("CUDA double: no device memory");
    std::abort();
  }
  const char* const open = std::getenv("CUDA_DOUBLE_OPEN_MEMORY");
  const bool is_open = open != nullptr && std::strcmp(open, "1") == 0;
  void* const device =
      is_open ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)
              : mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* const host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (device == MAP_FAILED || host == MAP_FAILED) {
    std::perror("CUDA double: no device memory");
    std::abort();
  }
  device_ = static_cast<std::byte*>(device);
  host_ = static_cast<std::byte*>(host);
}

void* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t length = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  const std::lock_guard lock(mutex_);
  std::size_t begin = 0;
  for (const auto& [other, its_length] : used_) {
    if (other - begin >= length) break;
    begin = other + its_length;
  }
  if (begin + length > size) return nullptr;
  used_[begin] = length;
  std::memset(host_ + begin, never_written, length);
  return device_ + begin;
}

bool DeviceMemory::free(void* address) {
  const std::lock_guard lock(mutex_);
  if (!is_device(address)) return false;
  const auto found = used_.find(offset_of(address));
  if (found == used_.end()) return false;
  std::memset(host_ + found->first, freed, found->second);
  used_.erase(found);
  return true;
}

bool DeviceMemory::is_device(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto begin = reinterpret_cast<std::uintptr_t>(device_);
  return at >= begin && at < begin + size;
}

std::uint64_t DeviceMemory::offset_of(const void* address) const {
  return static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - device_);
}

std::byte* DeviceMemory::find(const void* address, std::size_t bytes) const {
  if (!is_device(address)) return nullptr;
  const std::size_t at = offset_of(address);
  const std::lock_guard lock(mutex_);
  auto next = used_.upper_bound(at);
  if (next == used_.begin()) return nullptr;
  --next;
  return at + bytes <= next->first + next->second ? host_ + at : nullptr;
}

}  // namespace doubles
