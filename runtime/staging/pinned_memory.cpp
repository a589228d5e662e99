#include "runtime/staging/pinned_memory.h"

#include <algorithm>
#include <bit>
#include <string>

#include "dlaunch/error.h"

namespace dlaunch::internal {

namespace {

constexpr std::size_t smallest = 4096;
constexpr std::size_t step = std::size_t{1} << 20U;

// Few different sizes, so that a piece serves the next call as well.
std::size_t rounded(std::size_t bytes) {
  if (bytes <= step) return std::bit_ceil(std::max(bytes, smallest));
  return (bytes + step - 1) / step * step;
}

}  // namespace

PinnedMemory::~PinnedMemory() {
  for (const auto& [size, memory] : unused_) source_.release(memory);
}

std::shared_ptr<PinnedMemory> PinnedMemory::of_process(Source source) {
  static std::mutex& making = *new std::mutex;
  static std::weak_ptr<PinnedMemory>& current = *new std::weak_ptr<PinnedMemory>;
  const std::lock_guard lock(making);
  std::shared_ptr<PinnedMemory> memory = current.lock();
  if (!memory) current = memory = std::make_shared<PinnedMemory>(source);
  return memory;
}

std::shared_ptr<std::byte> PinnedMemory::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::size_t size = rounded(bytes);
  std::byte* memory = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = unused_.lower_bound(size);
    if (found != unused_.end() && found->first <= 2 * size) {
      size = found->first;
      memory = found->second;
      kept_ -= size;
      unused_.erase(found);
    }
  }
  if (memory == nullptr) memory = static_cast<std::byte*>(source_.allocate(size));
  if (memory == nullptr) {
    throw DistBackendError("there is no pinned memory for " + std::to_string(bytes) +
                           " bytes, through which CUDA tensors are copied: cudaHostAlloc failed");
  }
  {
    const std::lock_guard lock(mutex_);
    in_use_ += size;
  }
  return {memory, [pool = shared_from_this(), size](std::byte* unused) { pool->put(unused, size); }};
}

bool PinnedMemory::is_full() {
  const std::lock_guard lock(mutex_);
  return in_use_ >= most_kept;
}

void PinnedMemory::put(std::byte* memory, std::size_t size) {
  {
    const std::lock_guard lock(mutex_);
    in_use_ -= size;
    if (kept_ + size <= most_kept) {
      unused_.emplace(size, memory);
      kept_ += size;
      return;
    }
  }
  source_.release(memory);
}

}  // namespace dlaunch::internal
