// A segment of memory that several processes map: made by one rank, handed to the others as a descriptor.
#pragma once

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/shared_memory/layout.h"
#include "runtime/shared_memory/shared_heap.h"

namespace dlaunch::internal {

// Of memory that processes share, so that none can change the size that the others have mapped.
inline constexpr int memory_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Of an error that names the rank: there stands what no rank writes.
inline constexpr const char* damaged_memory = "its part of the shared memory has values that no rank writes";

class Segment {
 public:
  // A new sealed memfd for so many ranks, whose header is written; the caller closes the descriptor. -1:
  // `why` becomes one clause. Close-on-exec.
  static int make_file(std::size_t ranks, std::string& why);

  // Maps what make_file() has made, perhaps in another process. The same object for the same file, so that
  // ranks that are threads of one process see it at the same addresses. Does not keep `fd`. Null: it is no
  // such file for so many ranks, is not sealed, or cannot be mapped; `why` becomes one clause.
  static std::shared_ptr<Segment> map(int fd, std::size_t ranks, std::string& why);

  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  [[nodiscard]] const shared::Processors& processors() const { return *processors_; }
  [[nodiscard]] shared::Control& control(std::size_t rank) const {
    return reinterpret_cast<shared::Control*>(memory_ + shared::controls_at())[rank];
  }
  [[nodiscard]] std::byte* short_area(std::size_t rank, std::size_t cell) const {
    return memory_ + short_at_ + (rank * shared::window + cell) * shared::short_size;
  }
  [[nodiscard]] std::byte* eager(std::size_t rank, std::size_t area) const {
    return memory_ + eager_at_ + (rank * shared::eager_window + area) * shared::eager_size;
  }
  [[nodiscard]] shared::RingEnds& ring_ends(std::size_t from, std::size_t to) const {
    const std::size_t row = shared::round_up(ranks_ * sizeof(shared::RingEnds), shared::page_size);
    return reinterpret_cast<shared::RingEnds*>(memory_ + shared::ring_ends_at(ranks_) + to * row)[from];
  }
  [[nodiscard]] std::byte* ring(std::size_t from, std::size_t to) const {
    return memory_ + shared::rings_at(ranks_) + (to * ranks_ + from) * shared::ring_size(ranks_);
  }
  [[nodiscard]] std::byte* staging(std::size_t rank, std::size_t half) const {
    return memory_ + staging_at_ + (rank * 2 + half) * shared::half_staging_size;
  }

  // Made by the first call; any thread. Null: there is none; `why` becomes one clause.
  std::shared_ptr<SharedHeap> heap(std::string& why);

 private:
  Segment(std::byte* memory, const shared::Header& header);
  void add_processors();
  // Of the mapping: all but the heap, and the heap's first page.
  static std::size_t mapped_size(const shared::Header& header);

  std::byte* const memory_;
  shared::Processors* const processors_;
  const std::size_t ranks_;
  const std::uint64_t identity_;
  const std::size_t heap_part_;
  const std::size_t short_at_;
  const std::size_t eager_at_;
  const std::size_t staging_at_;
  std::mutex heap_mutex_;
  std::shared_ptr<SharedHeap> heap_;  // protected by heap_mutex_
};

// Gives pages that are about to be written memory now, since a write without memory would end the process by
// SIGBUS. False: there is none. Where the kernel has no call for it, true.
bool populate(std::byte* begin, std::size_t size);
// The same of the pages in which these bytes lie.
bool populate_around(void* address, std::size_t size);

// Returns the memory of whole pages; they read as zeros afterwards.
void discard(std::byte* begin, std::size_t size);

}  // namespace dlaunch::internal
