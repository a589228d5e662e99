// A queue from one thread to another one, without locks. Its slots are used again and again, and keep what
// they own until then: so memory is allocated and freed by the producer alone, and only if more is in the
// queue than ever before.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace dlaunch::internal {

// next() and push() are the producer's, the others the consumer's; each is one thread at a time.
template <class Slot>
class SlotQueue {
 public:
  SlotQueue() {
    last_ = add_chunk();
    last_->next = last_;
    first_ = last_;
  }
  SlotQueue(const SlotQueue&) = delete;
  SlotQueue& operator=(const SlotQueue&) = delete;

  // A slot that the consumer has released, with what it had then, or a new one; the same until push().
  Slot& next() {
    if (used_ == slots_in_chunk) begin_chunk();
    return last_->slots[used_];
  }
  // The slot of next() is the consumer's from now on. Before what the producer does next, in the order of all
  // threads: a consumer that has declared that it sleeps, and then finds nothing, is seen to sleep.
  void push() {
    ++used_;
    pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  }

  // How many have been pushed and not released. Any thread.
  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(pushed_.load(std::memory_order_seq_cst) -
                                    released_.load(std::memory_order_relaxed));
  }
  // From the oldest one on. REQUIRES: index < size().
  Slot& at(std::size_t index) {
    index += released_in_first_;
    Chunk* chunk = first_;
    for (; index >= slots_in_chunk; index -= slots_in_chunk) chunk = chunk->next;
    return chunk->slots[index];
  }
  // The oldest ones. REQUIRES: count <= size().
  void release(std::size_t count) {
    released_in_first_ += count;
    // The chunk behind a full one is known as soon as there is something in it.
    for (; released_in_first_ > slots_in_chunk; released_in_first_ -= slots_in_chunk) first_ = first_->next;
    const std::uint64_t released = released_.load(std::memory_order_relaxed) + count;
    released_.store(released, std::memory_order_release);
  }

 private:
  static constexpr std::size_t slots_in_chunk = 32;
  // They make a ring. The producer writes `next` only before it pushes something behind it.
  struct Chunk {
    std::array<Slot, slots_in_chunk> slots;
    std::uint64_t first_number = 0;
    Chunk* next = nullptr;
  };

  Chunk* add_chunk() { return chunks_.emplace_back(std::make_unique<Chunk>()).get(); }

  void begin_chunk() {
    // The consumer leaves a chunk when it releases a slot behind it.
    const std::uint64_t released = released_.load(std::memory_order_acquire);
    if (last_->next->first_number + slots_in_chunk >= released) {
      Chunk* const added = add_chunk();
      added->next = last_->next;
      last_->next = added;
    }
    last_ = last_->next;
    last_->first_number = pushed_.load(std::memory_order_relaxed);
    used_ = 0;
  }

  // The producer's.
  std::vector<std::unique_ptr<Chunk>> chunks_;
  Chunk* last_;
  std::size_t used_ = 0;  // slots of it
  // The consumer's, in a cache line of its own.
  alignas(64) Chunk* first_;
  std::size_t released_in_first_ = 0;
  alignas(64) std::atomic<std::uint64_t> pushed_ = 0;
  alignas(64) std::atomic<std::uint64_t> released_ = 0;
};

}  // namespace dlaunch::internal
