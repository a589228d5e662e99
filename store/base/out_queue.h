// The bytes that wait to be sent on one connection, in order: its own, and bytes shared with others.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "store/base/bytes.h"
#include "store/base/shared_bytes.h"

namespace dlaunch::store {

class OutQueue {
 public:
  // Shorter bytes are copied: a separate piece would cost more than it saves.
  static constexpr std::size_t shared_from = 8 * 1024;

  // REQUIRES: `memory` outlives the queue. It counts the memory of this queue: own bytes, and `piece_cost`
  // for each shared piece.
  explicit OutQueue(std::size_t& memory) : memory_(memory) {}
  ~OutQueue() { memory_ -= cost_; }
  OutQueue(const OutQueue&) = delete;
  OutQueue& operator=(const OutQueue&) = delete;

  void append(ByteSpan bytes) {
    if (pieces_.empty() || pieces_.back().is_shared) pieces_.emplace_back();
    pieces_.back().own.append(as_text(bytes));
    count(bytes.size(), bytes.size());
  }
  void append(const SharedBytes& bytes) {
    if (bytes.size() < shared_from) return append(ByteSpan(bytes));
    pieces_.push_back({{}, bytes, true});
    count(bytes.size(), piece_cost);
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  // What the end of this queue would free: own bytes, and its part of shared ones that only answers hold.
  [[nodiscard]] std::size_t memory() const {
    std::size_t sum = cost_;
    for (const Piece& piece : pieces_) sum += piece.shared.counted_part();
    return sum;
  }

  // Calls emit(ByteSpan) for each piece in order, without the first `skipped` bytes, at most `most` times.
  template <class Emit>
  void each(std::size_t skipped, std::size_t most, Emit&& emit) const {
    for (const Piece& piece : pieces_) {
      const ByteSpan bytes = piece.bytes();
      if (skipped >= bytes.size()) {
        skipped -= bytes.size();
        continue;
      }
      if (most-- == 0) return;
      emit(bytes.subspan(std::exchange(skipped, 0)));
    }
  }

  // Keeps little memory for the next bytes, so that an idle connection does not hold much.
  void clear() {
    memory_ -= std::exchange(cost_, 0);
    size_ = 0;
    const bool keeps = pieces_.size() == 1 && pieces_[0].own.capacity() <= kept_capacity;
    if (!keeps) return std::vector<Piece>().swap(pieces_);
    pieces_[0].own.clear();
    pieces_[0].shared = {};
    pieces_[0].is_shared = false;
  }

  // REQUIRES: both queues count in the same `memory`.
  void swap(OutQueue& other) noexcept {
    pieces_.swap(other.pieces_);
    std::swap(size_, other.size_);
    std::swap(cost_, other.cost_);
  }

 private:
  struct Piece {
    [[nodiscard]] ByteSpan bytes() const { return is_shared ? ByteSpan(shared) : as_byte_span(own); }
    std::string own;
    SharedBytes shared;
    bool is_shared = false;
  };
  static constexpr std::size_t kept_capacity = 4 * 1024;
  static constexpr std::size_t piece_cost = 2 * sizeof(Piece);  // the vector may have room for twice as many

  void count(std::size_t bytes, std::size_t cost) {
    size_ += bytes;
    cost_ += cost;
    memory_ += cost;
  }

  std::size_t& memory_;
  std::vector<Piece> pieces_;
  std::size_t size_ = 0;
  std::size_t cost_ = 0;
};

}  // namespace dlaunch::store
