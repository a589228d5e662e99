// Memory that the operations of one group use again and again, so that none of them waits for fresh pages.
#pragma once

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

  // At least `size` bytes, aligned for every dtype; valid until the next call.
  std::span<std::byte> scratch(std::size_t size) {
    if (size > scratch_size_) {
      scratch_.reset();
      scratch_ = allocate(size);
      scratch_size_ = size;
    }
    return {scratch_.get(), size};
  }

 private:
  static constexpr std::align_val_t alignment{64};
  static Memory allocate(std::size_t size) {
    return Memory(static_cast<std::byte*>(::operator new[](size, alignment)));
  }

  std::size_t block_size_;
  std::vector<Memory> free_;
  Memory scratch_;
  std::size_t scratch_size_ = 0;
};

}  // namespace dlaunch
