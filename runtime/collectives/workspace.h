// Memory that the operations of one group use again and again, so that none of them waits for fresh pages.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dlaunch {

// Used by one operation at a time.
class Workspace {
 public:
  struct Release {
    void operator()(std::byte* memory) const { ::operator delete[](memory, alignment); }
  };
  using Memory = std::unique_ptr<std::byte[], Release>;

  // A block of the fixed size; goes back to the workspace, which must outlive it.
  class Block {
   public:
    Block() = default;
    Block(Workspace& owner, Memory memory) : owner_(&owner), memory_(std::move(memory)) {}
    Block(Block&& other) noexcept = default;
    Block& operator=(Block&& other) noexcept {
      std::swap(owner_, other.owner_);
      std::swap(memory_, other.memory_);
      return *this;
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block() {
      if (memory_) owner_->free_.push_back(std::move(memory_));
    }
    [[nodiscard]] std::byte* data() const { return memory_.get(); }
    explicit operator bool() const { return memory_ != nullptr; }

   private:
    Workspace* owner_ = nullptr;
    Memory memory_;
  };

  explicit Workspace(std::size_t block_size) : block_size_(block_size) {}

  Block block() {
    if (free_.empty()) return {*this, allocate(block_size_)};
    Memory memory = std::move(free_.back());
    free_.pop_back();
    return {*this, std::move(memory)};
  }

  // At least `size` bytes, aligned for every dtype; valid until the next call with this area. An operation
  // that is built upon another one leaves the areas before its own to that.
  std::span<std::byte> scratch(std::size_t size, std::size_t area = 0) {
    Scratch& wanted = scratch_.at(area);
    if (size > wanted.size) {
      wanted.memory.reset();
      wanted.memory = allocate(size);
      wanted.size = size;
    }
    return {wanted.memory.get(), size};
  }

 private:
  static constexpr std::align_val_t alignment{64};
  static Memory allocate(std::size_t size) {
    return Memory(static_cast<std::byte*>(::operator new[](size, alignment)));
  }

  std::size_t block_size_;
  std::vector<Memory> free_;
  struct Scratch {
    Memory memory;
    std::size_t size = 0;
  };
  std::array<Scratch, 2> scratch_;
};

}  // namespace dlaunch
