// Which part of the data travels in each message of a ring. Blocks, one for each rank, go round from rank to
// rank; each is cut into segments, which are sent one after the other. Pure.
#pragma once

#include <algorithm>
#include <cstddef>

namespace dlaunch::internal {

class RingSchedule {
 public:
  struct Piece {
    std::size_t block;
    std::size_t segment;
  };

  // `first`: the block that this rank sends first; a neighbour's is the neighbouring one.
  RingSchedule(std::size_t rank, std::size_t size, std::size_t segments, std::size_t first)
      : rank_(rank), size_(size), segments_(segments), first_(first) {}

  [[nodiscard]] int left() const { return static_cast<int>((rank_ + size_ - 1) % size_); }
  [[nodiscard]] int right() const { return static_cast<int>((rank_ + 1) % size_); }
  // After so many messages every block has passed every rank.
  [[nodiscard]] std::size_t round() const { return (size_ - 1) * segments_; }
  // Message k to the right. REQUIRES: k < 2 * round().
  [[nodiscard]] Piece outgoing(std::size_t k) const {
    return {(first_ + 2 * size_ - k / segments_) % size_, k % segments_};
  }
  // Message k from the left: this rank sends that piece one step later.
  [[nodiscard]] Piece incoming(std::size_t k) const { return outgoing(k + segments_); }

 private:
  const std::size_t rank_;
  const std::size_t size_;
  const std::size_t segments_;
  const std::size_t first_;
};

// Part `number` of `count` elements in so many parts, whose lengths differ by at most one.
struct EvenPart {
  EvenPart(std::size_t count, std::size_t parts, std::size_t number)
      : begin(number * (count / parts) + std::min(number, count % parts)),
        length(count / parts + (number < count % parts ? 1 : 0)) {}

  const std::size_t begin;
  const std::size_t length;
};

}  // namespace dlaunch::internal
