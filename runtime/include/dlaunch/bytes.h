// The bytes of an object while they are written and read (codec.h), and in which parts they are sent.
//
// A message of an object collective is one string. The arguments and the result of a remote call (rpc.h) are
// a front and blocks: long plain data, as the elements of a std::vector<float>, are a block of their own. So
// they are sent from where they are, and read where they arrive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

namespace codec {

// A bound that does not follow from the bytes.
inline constexpr std::size_t most_without_bytes = std::size_t{1} << 20;

// So long are plain data that are a block of their own.
inline constexpr std::size_t shortest_block = std::size_t{32} * 1024;
// Blocks that arrive behind each other begin at multiples of this, and are aligned to it.
inline constexpr std::size_t block_alignment = 64;

// They do not change as long as a Block refers to them. If the memory has no owner (use_count() is 0), it is
// the caller's.
struct Block {
  std::shared_ptr<const void> data;
  std::size_t size = 0;

  [[nodiscard]] std::string_view view() const { return {static_cast<const char*>(data.get()), size}; }
};
// In memory that is used again later: fast from the second time on. Throws std::bad_alloc.
DLAUNCH_EXPORT Block copy_of(const void* data, std::size_t size);

// What the serialize() of a type keeps for all its objects in a message. Any thread. If it is destroyed
// before on_sent(), the message is not sent: an argument was wrong, or the worker does not exist.
class MessageNote {
 public:
  MessageNote() = default;
  virtual ~MessageNote() = default;
  MessageNote(const MessageNote&) = delete;
  MessageNote& operator=(const MessageNote&) = delete;
  // The message is on its way from now on.
  virtual void on_sent() = 0;
  // Of a request, afterwards: no byte of it has left, or the worker has rejected it before its function ran.
  virtual void on_rejected() = 0;
};

// For which devices of its receiver the tensors of a message are (dlaunch/torch/rpc_tensors.h), by their
// devices at the sender. Devices are CUDA's numbers.
class ReceiverDevices {
 public:
  // None: a tensor of that device cannot be sent.
  [[nodiscard]] virtual std::optional<int> find(int own) const = 0;
  // Why it cannot, and what to do: a clause.
  [[nodiscard]] virtual std::string why_none(int own) const = 0;

 protected:
  ~ReceiverDevices() = default;
};

struct Bytes {
  Bytes() = default;
  Bytes(std::string text) : front(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  Bytes(const char* text) : front(text) {}             // NOLINT(google-explicit-constructor)

  std::string front;
  std::vector<Block> blocks;
  std::shared_ptr<MessageNote> note;  // null: none

  // Those of the blocks when they are behind each other.
  [[nodiscard]] std::size_t size_of_blocks() const {
    std::size_t size = 0;
    for (const Block& block : blocks) size = aligned(size) + block.size;
    return size;
  }
  [[nodiscard]] std::size_t size() const { return front.size() + size_of_blocks(); }
  [[nodiscard]] static std::size_t aligned(std::size_t at) {
    return (at + block_alignment - 1) / block_alignment * block_alignment;
  }
};

class Writer {
 public:
  // What becomes of long plain data: they are written among the other bytes, copied into a block, or become a
  // block where they are, which must not change as long as the bytes are used.
  enum class LongData : std::uint8_t { inside, copied, referred };

  // `receiver`: of the message; it lives as long as the writer. Null: no other worker gets what is written.
  // `begin`: with which the bytes begin.
  explicit Writer(LongData how = LongData::inside, const ReceiverDevices* receiver = nullptr,
                  std::string begin = {})
      : how_(how), receiver_(receiver), bytes_(std::move(begin)) {}

  void raw(const void* data, std::size_t size) { bytes_.front.append(static_cast<const char*>(data), size); }
  // Plain data, behind their length.
  void plain(const void* data, std::size_t size) {
    if (how_ == LongData::inside || size < shortest_block) return raw(data, size);
    if (how_ == LongData::copied && !owner_) return bytes_.blocks.push_back(copy_of(data, size));
    bytes_.blocks.push_back({std::shared_ptr<const void>(owner_, data), size});
  }
  // The same; they do not change as long as there is an owner, and are not copied if they are long.
  void plain(std::shared_ptr<const void> data, std::size_t size) {
    if (how_ == LongData::inside || size < shortest_block) return raw(data.get(), size);
    bytes_.blocks.push_back({std::move(data), size});
  }
  // The owner of the plain data that follow: they are not copied. Null: there is none.
  void set_owner(std::shared_ptr<const void> owner) { owner_ = std::move(owner); }

  void length(std::size_t value) {
    const std::uint64_t wide = value;
    raw(&wide, sizeof wide);
  }
  // Of things that take no bytes.
  void count(std::size_t value) {
    if (value > most_without_bytes - without_bytes_) {
      throw DistError("an object has too many parts that take no bytes to be serialised");
    }
    without_bytes_ += value;
    length(value);
  }

  [[nodiscard]] bool has_blocks() const { return how_ != LongData::inside; }
  [[nodiscard]] std::shared_ptr<MessageNote>& note() { return bytes_.note; }  // null at first
  [[nodiscard]] const ReceiverDevices* receiver() const { return receiver_; }

  // REQUIRES: long data are inside.
  std::string take() { return std::move(bytes_.front); }
  Bytes take_bytes() { return std::move(bytes_); }

 private:
  const LongData how_;
  const ReceiverDevices* const receiver_;
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
  std::size_t without_bytes_ = 0;
};

class Reader {
 public:
  // Long data are inside.
  explicit Reader(std::string_view bytes) : front_(bytes), left_(bytes.size()) {}
  // Long data are in the blocks. The front must stay where it is.
  Reader(std::string_view front, std::vector<Block> blocks)
      : front_(front), blocks_(std::move(blocks)), has_blocks_(true), left_(front.size()) {
    for (const Block& block : blocks_) left_ += block.size;
  }

  void raw(void* data, std::size_t size) {
    if (size > front_.size()) too_short();
    if (size > 0) std::memcpy(data, front_.data(), size);
    skip(size);
  }
  // What Writer::plain() has written. Without an owner it is in the front.
  Block plain(std::size_t size) {
    if (has_blocks_ && size >= shortest_block) return block(size);
    if (size > front_.size()) too_short();
    Block found{std::shared_ptr<const void>(std::shared_ptr<void>(), front_.data()), size};
    skip(size);
    return found;
  }

  // Throws unless there are bytes for so many things of that size.
  void require(std::size_t count, std::size_t size) const {
    if (count > left_ / size) too_short();
  }
  // A number of things each of which takes a byte at least.
  std::size_t length() { return number(left_ - std::min(left_, sizeof(std::uint64_t))); }
  // Of things that take no bytes.
  std::size_t count() {
    const std::size_t value = number(most_without_bytes - without_bytes_);
    without_bytes_ += value;
    return value;
  }
  [[nodiscard]] bool at_end() const {
    const bool no_block =
        next_ == blocks_.size() || (next_ + 1 == blocks_.size() && at_ == blocks_[next_].size);
    return front_.empty() && no_block;
  }

 private:
  [[noreturn]] static void too_short() { throw DistError("a serialised object ends too early"); }
  void skip(std::size_t size) {
    front_.remove_prefix(size);
    left_ -= size;
  }
  Block block(std::size_t size) {
    if (next_ < blocks_.size() && at_ == blocks_[next_].size) {
      ++next_;
      at_ = 0;
    }
    if (next_ == blocks_.size()) too_short();
    const Block& whole = blocks_[next_];
    const std::size_t begin = Bytes::aligned(at_);
    if (begin > whole.size || size > whole.size - begin) too_short();
    left_ -= begin + size - at_;
    at_ = begin + size;
    return {std::shared_ptr<const void>(whole.data, static_cast<const char*>(whole.data.get()) + begin),
            size};
  }
  std::size_t number(std::size_t most) {
    std::uint64_t wide = 0;
    raw(&wide, sizeof wide);
    if (wide > most) throw DistError("a serialised object has a length that cannot be");
    return static_cast<std::size_t>(wide);
  }

  std::string_view front_;
  std::vector<Block> blocks_;
  bool has_blocks_ = false;
  std::size_t next_ = 0;  // block, of which at_ bytes are read
  std::size_t at_ = 0;
  std::size_t left_;  // bytes, those between blocks included
  std::size_t without_bytes_ = 0;
};

}  // namespace codec

}  // namespace v1
}  // namespace dlaunch
