// Bytes with several owners and one copy: a stored value and the answers that carry it. Shared bytes do not
// change: an owner that changes them gets its own copy.
//
// One thread: all owners of the same bytes belong to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "store/base/bytes.h"

namespace dlaunch::store {

class SharedBytes {
 public:
  SharedBytes() = default;  // empty
  explicit SharedBytes(std::string_view bytes) : block_(std::make_shared<Block>(bytes)) {}

  [[nodiscard]] std::string_view view() const {
    return block_ == nullptr ? std::string_view() : std::string_view(block_->bytes);
  }
  [[nodiscard]] std::size_t size() const { return view().size(); }
  [[nodiscard]] bool is_shared() const { return block_ != nullptr && block_.use_count() > 1; }
  operator ByteSpan() const { return as_byte_span(view()); }  // NOLINT(google-explicit-constructor)

  void assign(std::string_view bytes) {
    const bool in_place = block_ != nullptr && !is_shared() && !wastes(bytes.size());
    if (!in_place) return static_cast<void>(block_ = std::make_shared<Block>(bytes));
    block_->bytes.assign(bytes);
  }
  void append(std::string_view bytes) {
    if (block_ != nullptr && !is_shared()) return static_cast<void>(block_->bytes.append(bytes));
    std::string joined;
    joined.reserve(size() + bytes.size());
    joined.append(view()).append(bytes);
    block_ = std::make_shared<Block>(std::move(joined));
  }

  // From now on the bytes count in `total`, until their last owner is gone. REQUIRES: not empty, and called
  // once for bytes that do not change any more.
  void count_in(std::shared_ptr<std::uint64_t> total) {
    *total += block_->bytes.size();
    block_->counted_in = std::move(total);
  }
  // This owner's part of bytes counted by count_in; 0 for others.
  [[nodiscard]] std::size_t counted_part() const {
    const bool counts = block_ != nullptr && block_->counted_in != nullptr;
    return counts ? size() / static_cast<std::size_t>(block_.use_count()) : 0;
  }

 private:
  struct Block {
    explicit Block(std::string_view from) : bytes(from) {}
    explicit Block(std::string&& from) : bytes(std::move(from)) {}
    ~Block() {
      if (counted_in != nullptr) *counted_in -= bytes.size();
    }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::string bytes;
    std::shared_ptr<std::uint64_t> counted_in;
  };

  static constexpr std::size_t kept_capacity = 4096;  // that a short value may keep of a longer one
  [[nodiscard]] bool wastes(std::size_t size) const {
    return block_->bytes.capacity() > kept_capacity && size < block_->bytes.capacity() / 2;
  }

  std::shared_ptr<Block> block_;
};

}  // namespace dlaunch::store
