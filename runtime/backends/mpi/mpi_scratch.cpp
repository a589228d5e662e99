#include "runtime/backends/mpi/mpi_scratch.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>
#include <vector>

namespace dlaunch::internal {

class MpiScratch::Kept {
 public:
  static constexpr std::size_t longest = std::size_t{4} << 20U;

  // Never destroyed: an operation may run until the process has ended.
  static Kept& get() {
    static Kept& only = *new Kept;
    return only;
  }

  // The smallest that is large enough; null: there is none.
  Block take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::lower_bound(blocks_, size, {}, &Block::size);
    if (found == blocks_.end()) return {};
    Block block = std::move(*found);
    blocks_.erase(found);
    return block;
  }

  // If there are too many, the smallest is freed.
  void keep(Block block) noexcept {
    if (block.size > longest) return;
    const std::lock_guard lock(mutex_);
    const auto place = std::ranges::lower_bound(blocks_, block.size, {}, &Block::size);
    blocks_.insert(place, std::move(block));
    if (blocks_.size() > most_blocks) blocks_.erase(blocks_.begin());
  }

 private:
  static constexpr std::size_t most_blocks = 4;

  Kept() { blocks_.reserve(most_blocks + 1); }

  std::mutex mutex_;
  std::vector<Block> blocks_;  // by size; protected by mutex_
};

MpiScratch::MpiScratch(std::size_t bytes) : bytes_(bytes) {
  constexpr std::size_t least = 4096;
  const std::size_t size = bytes <= Kept::longest ? std::bit_ceil(std::max(bytes, least)) : bytes;
  Block block = Kept::get().take(size);
  if (!block.memory) block = {Memory(static_cast<std::byte*>(operator new(size, page))), size};
  size_ = block.size;
  memory_ = std::move(block.memory);
}

MpiScratch::~MpiScratch() {
  if (memory_) Kept::get().keep({std::move(memory_), size_});
}

}  // namespace dlaunch::internal
