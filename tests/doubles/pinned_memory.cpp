#include "tests/doubles/pinned_memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/doubles/memory_marks.h"

namespace doubles {

namespace {

constexpr std::size_t page_size = 4096;

}  // namespace

void* PinnedMemory::allocate(std::size_t bytes) {
  const std::size_t length = (std::max<std::size_t>(bytes, 1) + page_size - 1) / page_size * page_size;
  void* const memory = std::aligned_alloc(page_size, length);
  if (memory == nullptr) return nullptr;
  std::memset(memory, never_written, length);
  const std::lock_guard lock(mutex_);
  used_[reinterpret_cast<std::uintptr_t>(memory)] = length;
  return memory;
}

bool PinnedMemory::free(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(reinterpret_cast<std::uintptr_t>(address));
  if (found == used_.end()) return false;
  std::memset(address, freed, found->second);
  used_.erase(found);
  std::free(address);
  return true;
}

bool PinnedMemory::holds(const void* address, std::size_t bytes) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::lock_guard lock(mutex_);
  auto next = used_.upper_bound(at);
  if (next == used_.begin()) return false;
  --next;
  return at + bytes <= next->first + next->second;
}

}  // namespace doubles
