// Memory that the operations of one group reuse, so that none of them waits for fresh pages.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace dlaunch::internal {

// Used by one thread at a time.
class Workspace {
 public:
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }
  };
  using Memory = std::unique_ptr<std::byte[], Release>;

  // Areas from here on are for operations that begin while others run, one each.
  static constexpr std::size_t first_early = 2;
  static constexpr std::size_t early_areas = 3;
  // For operations over several hosts, which are built upon all the others.
  static constexpr std::size_t of_hosts = first_early + early_areas;

  // At least `size` bytes, aligned for every dtype; valid until the next call with this area. An operation
  // that is built upon another one leaves the earlier areas to that one.
  std::span<std::byte> scratch(std::size_t size, std::size_t area = 0) {
    Scratch& wanted = scratch_.at(area);
    if (size > wanted.size) {
      wanted.memory.reset();
      wanted.memory = allocate(size);
      wanted.size = size;
    }
    return {wanted.memory.get(), size};
  }

  // One for each rank; valid until the next call.
  std::vector<const std::byte*>& pointers(std::size_t ranks) {
    pointers_.resize(ranks);
    return pointers_;
  }

 private:
  static constexpr std::align_val_t alignment{64};
  static Memory allocate(std::size_t size) {
    return Memory(static_cast<std::byte*>(::operator new[](size, alignment)));
  }

  struct Scratch {
    Memory memory;
    std::size_t size = 0;
  };
  std::array<Scratch, of_hosts + 1> scratch_;
  std::vector<const std::byte*> pointers_;
};

}  // namespace dlaunch::internal
