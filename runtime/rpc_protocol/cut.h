// Which pieces of memory a part of a message consists of.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "dlaunch/bytes.h"

namespace dlaunch::internal {

// Of a sequence of bytes, those in [begin, end), as at most pieces.size() pieces.
class Cut {
 public:
  Cut(std::size_t begin, std::size_t end, std::span<std::span<const std::byte>> pieces)
      : begin_(begin), end_(end), pieces_(pieces) {}
  // The next bytes of the sequence.
  void pass(std::span<const std::byte> bytes) {
    const std::size_t first = std::clamp(begin_, at_, at_ + bytes.size()) - at_;
    const std::size_t last = std::clamp(end_, at_, at_ + bytes.size()) - at_;
    at_ += bytes.size();
    if (first == last || used_ == pieces_.size()) return;
    pieces_[used_++] = bytes.subspan(first, last - first);
  }
  // The same: all blocks, and the bytes between them.
  void pass_blocks(std::span<const codec::Block> blocks) {
    const std::size_t begin = at_;
    for (const codec::Block& block : blocks) {
      const std::size_t so_far = at_ - begin;
      pass(std::span(between_blocks).first(codec::Bytes::aligned(so_far) - so_far));
      pass({static_cast<const std::byte*>(block.data.get()), block.size});
    }
  }
  [[nodiscard]] std::size_t used() const { return used_; }

 private:
  static constexpr std::array<std::byte, codec::block_alignment> between_blocks{};

  const std::size_t begin_;
  const std::size_t end_;
  const std::span<std::span<const std::byte>> pieces_;
  std::size_t at_ = 0;
  std::size_t used_ = 0;
};

}  // namespace dlaunch::internal
