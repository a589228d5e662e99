// Which part of which message a connection sends next.
//
// Short messages are sent first and in order. Long ones take turns part by part, and a part of one follows
// after some short messages, so that neither waits for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/part_head.h"

namespace dlaunch::internal {

class SendQueue {
 public:
  // Messages of one part.
  static constexpr std::size_t short_message = std::size_t{16} * 1024;
  static_assert(short_message <= PartHead::longest_part);
  // Long messages that take turns. The others wait, and the receiver's limit is kept.
  static constexpr std::size_t most_in_turns = 16;
  static_assert(most_in_turns < MessageReader::most_open);

  // Of a striped message only the front is sent here.
  void push(RpcMessage message);
  // The same of a short message without blocks, of which so many bytes were sent already, those of its head
  // included, and not all. REQUIRES: the queue is empty.
  void push_begun(RpcMessage message, std::size_t sent);
  // With which the only part of a short message without blocks begins.
  static PartHead head_of(const RpcMessage& message);
  [[nodiscard]] bool is_empty() const { return scheduled_.empty() && short_.empty() && long_.empty(); }
  // How many messages are not sent yet, and their bytes.
  [[nodiscard]] std::size_t size() const { return messages_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  // The next bytes to send, as at most pieces.size() pieces; not much more than one long part, so that a
  // message that is pushed later can come soon. Valid until the next call of advance().
  std::span<const std::span<const std::byte>> next(std::span<std::span<const std::byte>> pieces);
  // So many of these bytes were sent.
  void advance(std::size_t count);

  [[nodiscard]] bool has_striped() const { return !striped_.empty(); }
  // The striped messages whose fronts have been sent since the last call.
  [[nodiscard]] std::vector<RpcMessage> take_striped() { return std::exchange(striped_, {}); }

  // The memory of the callers of these messages is not read from now on. A message of which no byte was sent
  // is dropped; of another one the rest is copied. Returns the numbers of those that were dropped.
  std::unordered_set<std::uint64_t> withdraw(std::span<const std::uint64_t> numbers);
  // Those of which no byte was sent.
  [[nodiscard]] std::unordered_set<std::uint64_t> untouched() const;

 private:
  struct Message {
    PartHead head;  // `length`: of its next part
    codec::Bytes body;
    std::size_t begun = 0;  // bytes that parts have been made of
    bool touched = false;
  };
  using Place = std::list<Message>::iterator;
  struct Part {
    PartHead head;
    Place message;
    std::size_t at;        // of the part in the body
    std::size_t sent = 0;  // of head and bytes
  };

  using Pieces = std::span<std::span<const std::byte>>;
  bool schedule();
  void schedule_part(Place message);
  static std::size_t add_pieces(const Part& part, Pieces pieces);
  void forget(Place message);

  std::list<Message> messages_;  // all
  std::deque<Place> short_;
  std::deque<Place> long_;  // whose turn is next, first
  std::deque<Part> scheduled_;
  std::vector<RpcMessage> striped_;
  std::size_t short_in_a_row_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace dlaunch::internal
