#include "runtime/base/block_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "dlaunch/bytes.h"

namespace dlaunch::internal {

namespace {

constexpr std::size_t cache_line = codec::block_alignment;
// Shorter ones are the allocator's, which keeps memory of that size itself.
constexpr std::size_t shortest_mapping = std::size_t{64} * 1024;
constexpr std::size_t huge_page = std::size_t{2} * 1024 * 1024;

struct Mapping {
  std::byte* data;
  std::size_t size;
};

std::size_t rounded(std::size_t size) {
  const std::size_t unit = size < huge_page ? shortest_mapping : huge_page;
  if (size > SIZE_MAX - unit) throw std::bad_alloc();
  return (size + unit - 1) / unit * unit;
}

// A lock that another thread holds is not waited for, so a forked child never waits for a thread that it does
// not have: then memory comes from the system, and goes back there.
class KeptMappings {
 public:
  static KeptMappings& get() {
    // Never destroyed: blocks may be given back until the process has ended.
    static KeptMappings& only = *new KeptMappings;
    return only;
  }

  // The smallest that is large enough, if it is not much too large; else none.
  Mapping take(std::size_t size) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {nullptr, 0};
    auto best = kept_.end();
    for (auto at = kept_.begin(); at != kept_.end(); ++at) {
      if (at->size < size || at->size / 2 > size) continue;
      if (best == kept_.end() || at->size < best->size) best = at;
    }
    if (best == kept_.end()) return {nullptr, 0};
    const Mapping found = *best;
    kept_.erase(best);
    bytes_ -= found.size;
    return found;
  }

  void give_back(const Mapping& mapping) {
    std::vector<Mapping> dropped = keep(mapping);
    for (const Mapping& one : dropped) munmap(one.data, one.size);
  }

  std::size_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  // Returns those for which there is no place: the oldest.
  std::vector<Mapping> keep(const Mapping& mapping) {
    if (mapping.size > most_kept_memory) return {mapping};
    madvise(mapping.data, mapping.size, MADV_FREE);
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return {mapping};
    kept_.push_back(mapping);
    bytes_ += mapping.size;
    auto end = kept_.begin();
    for (; bytes_ > most_kept_memory; ++end) bytes_ -= end->size;
    std::vector<Mapping> dropped(kept_.begin(), end);
    kept_.erase(kept_.begin(), end);
    return dropped;
  }

  std::mutex mutex_;
  // protected by mutex_
  std::vector<Mapping> kept_;
  std::size_t bytes_ = 0;
};

Mapping map(std::size_t size) {
  void* const data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  if (size >= huge_page) madvise(data, size, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(data), size};
}

}  // namespace

std::shared_ptr<std::byte> allocate_block(std::size_t size) {
  if (size < shortest_mapping) {
    constexpr std::align_val_t alignment{cache_line};
    return {static_cast<std::byte*>(operator new(size, alignment)),
            [](std::byte* data) { operator delete (data, std::align_val_t{cache_line}); }};
  }
  const std::size_t whole = rounded(size);
  Mapping mapping = KeptMappings::get().take(whole);
  if (!mapping.data) mapping = map(whole);
  return {mapping.data, [mapping](std::byte*) { KeptMappings::get().give_back(mapping); }};
}

std::size_t kept_memory() { return KeptMappings::get().bytes(); }

}  // namespace dlaunch::internal

namespace dlaunch {
inline namespace v1 {

codec::Block codec::copy_of(const void* data, std::size_t size) {
  const std::shared_ptr<std::byte> copy = internal::allocate_block(size);
  if (size > 0) std::memcpy(copy.get(), data, size);
  return {copy, size};
}

}  // namespace v1
}  // namespace dlaunch
