// Memory of the program that the other ranks of the host read in place.
//
// Each segment has a heap: a part for each rank, of which the rank hands out pieces to its program. A piece
// is found by the segment's identity and its offset in the heap, which are the same in every process. A
// process maps the heap when it first allocates, so a process that holds a piece of a heap can read the
// pieces of all ranks. A process that has not allocated maps nothing and takes no part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/own_process.h"
#include "runtime/shared_memory/extents.h"

namespace dlaunch::internal {

// Any thread.
class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  // `first_page`: the mapping of the heap's first page. Null: it cannot be mapped; `why` becomes one clause.
  static std::shared_ptr<SharedHeap> map(std::byte* first_page, std::uint64_t identity, std::size_t ranks,
                                         std::size_t part, std::string& why);
  ~SharedHeap();
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  // Zeros, from the part of this rank, which is one of this process; whole pages. The memory is taken now.
  // The piece keeps the heap. Null: the part has no room for it. Throws DistBackendError if there is no
  // memory, with the limit of the control group. REQUIRES: size > 0.
  std::shared_ptr<std::byte> allocate(std::size_t rank, std::size_t size);

  // REQUIRES: the bytes are in this heap.
  [[nodiscard]] std::uint64_t offset_of(const std::byte* at) const {
    return static_cast<std::uint64_t>(at - memory_);
  }
  // Null: these are not all in the heap.
  [[nodiscard]] const std::byte* at(std::uint64_t offset, std::size_t size) const {
    return size <= size_ && offset <= size_ - size ? memory_ + offset : nullptr;
  }

  // The heap of this process that contains all these bytes, of which there are some. Null: none.
  static std::shared_ptr<SharedHeap> containing(std::span<const std::byte> bytes);

 private:
  SharedHeap(std::byte* memory, std::uint64_t identity, std::size_t ranks, std::size_t part);
  void give_back(std::size_t rank, std::size_t begin) noexcept;

  std::byte* const memory_;
  const std::size_t size_;
  const std::uint64_t identity_;
  const OwnProcess own_process_;  // a forked copy does not have the memory
  std::mutex mutex_;
  std::vector<Extents> parts_;  // by rank; protected by mutex_
};

}  // namespace dlaunch::internal
