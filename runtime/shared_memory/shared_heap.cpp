#include "runtime/shared_memory/shared_heap.h"

#include <sys/mman.h>

#include <cerrno>
#include <optional>
#include <shared_mutex>
#include <system_error>

#include "dlaunch/error.h"
#include "runtime/shared_memory/layout.h"
#include "runtime/shared_memory/memory_limit.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {

namespace {

struct Heaps {
  std::shared_mutex mutex;
  std::vector<std::weak_ptr<SharedHeap>> all;  // protected by mutex

  static Heaps& get() {
    static Heaps& one = *new Heaps;
    return one;
  }
};

}  // namespace

// With an old size of 0 the kernel maps the same file again, from the page on.
std::shared_ptr<SharedHeap> SharedHeap::map(std::byte* first_page, std::uint64_t identity, std::size_t ranks,
                                            std::size_t part, std::string& why) {
  void* const memory = mremap(first_page, 0, ranks * part, MREMAP_MAYMOVE);
  if (memory == MAP_FAILED) {
    why = "the address space has no room for the heap: " + std::generic_category().message(errno);
    return nullptr;
  }
  madvise(memory, ranks * part, MADV_DONTFORK);
  madvise(memory, ranks * part, MADV_DONTDUMP);
  std::shared_ptr<SharedHeap> heap(new SharedHeap(static_cast<std::byte*>(memory), identity, ranks, part));
  Heaps& heaps = Heaps::get();
  const std::lock_guard lock(heaps.mutex);
  std::erase_if(heaps.all, [](const auto& other) { return other.expired(); });
  heaps.all.push_back(heap);
  return heap;
}

SharedHeap::SharedHeap(std::byte* memory, std::uint64_t identity, std::size_t ranks, std::size_t part)
    : memory_(memory), size_(ranks * part), identity_(identity) {
  for (std::size_t rank = 0; rank < ranks; ++rank) parts_.emplace_back(rank * part, part);
}

SharedHeap::~SharedHeap() {
  if (own_process_.is_this()) munmap(memory_, size_);
}

std::shared_ptr<std::byte> SharedHeap::allocate(std::size_t rank, std::size_t size) {
  const std::size_t whole = shared::round_up(size, shared::page_size);
  if (whole < size) return nullptr;
  std::optional<std::size_t> begin;
  {
    const std::lock_guard lock(mutex_);
    begin = parts_[rank].take(whole);
  }
  if (!begin) return nullptr;
  // A control group whose limit is passed may end the process, so its limit is read before.
  const std::optional<std::string> why = why_memory_does_not_fit(whole);
  if (why || !populate(memory_ + *begin, whole)) {
    give_back(rank, *begin);
    throw DistBackendError("there is no memory for " + std::to_string(size) +
                           " bytes that the ranks of this host share" + (why ? ": " + *why : ""));
  }
  return {memory_ + *begin, [heap = shared_from_this(), rank](const std::byte* at) {
            if (heap->own_process_.is_this()) heap->give_back(rank, heap->offset_of(at));
          }};
}

// The next one that gets it finds zeros.
void SharedHeap::give_back(std::size_t rank, std::size_t begin) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t size = parts_[rank].give_back(begin);
  discard(memory_ + begin, size);
}

std::shared_ptr<SharedHeap> SharedHeap::containing(std::span<const std::byte> bytes) {
  Heaps& heaps = Heaps::get();
  const std::shared_lock lock(heaps.mutex);
  for (const std::weak_ptr<SharedHeap>& each : heaps.all) {
    std::shared_ptr<SharedHeap> heap = each.lock();
    if (heap && bytes.data() >= heap->memory_ && bytes.size() <= heap->size_ &&
        heap->offset_of(bytes.data()) <= heap->size_ - bytes.size())
      return heap;
  }
  return nullptr;
}

}  // namespace dlaunch::internal
