// Memory that an operation uses temporarily, and that is kept for later ones. New memory of a MiB costs 256
// page faults, which take longer than the messages in it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

namespace dlaunch::internal {

// A block for one operation. It begins at a page boundary: the kernel copies faster to there.
class MpiScratch {
 public:
  // Its contents are undefined. Throws std::bad_alloc. Any thread.
  explicit MpiScratch(std::size_t bytes);
  ~MpiScratch();  // keeps it for another one: 16 MiB in the process at most
  MpiScratch(MpiScratch&&) noexcept = default;
  MpiScratch& operator=(MpiScratch&&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), bytes_}; }
  // It stays MPI's until the process ends.
  void leave() { (void)memory_.release(); }

 private:
  static constexpr std::align_val_t page{4096};
  struct Delete {
    void operator()(std::byte* memory) const { operator delete(memory, page); }
  };
  using Memory = std::unique_ptr<std::byte, Delete>;
  struct Block {
    Memory memory;
    std::size_t size = 0;
  };
  class Kept;

  std::size_t bytes_;
  std::size_t size_ = 0;  // that the memory has
  Memory memory_;
};

}  // namespace dlaunch::internal
