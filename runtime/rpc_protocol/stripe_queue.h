// Which stripe of which message goes next, to whichever connection has room for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/rpc_protocol/message_reader.h"
#include "runtime/rpc_protocol/stripe_head.h"

namespace dlaunch::internal {

// From here on the blocks of a message travel as stripes, if there are connections for them, in bytes.
inline constexpr std::size_t striped_from = std::size_t{1024} * 1024;

// Makes a striped message of a call or an answer.
void make_striped(RpcMessage& message);

// On its way on one connection.
class Stripe {
 public:
  using Blocks = std::vector<codec::Block>;

  Stripe(const StripeHead& head, std::shared_ptr<const Blocks> blocks)
      : head_(head), blocks_(std::move(blocks)), at_(head.at) {}

  [[nodiscard]] std::uint64_t number() const { return head_.number; }
  // What is not sent yet; if there are too few pieces, the first of it. Valid as long as the stripe is, and
  // is not changed.
  [[nodiscard]] std::span<const std::span<const std::byte>> pieces(
      std::span<std::span<const std::byte>> places) const;
  // So many bytes were sent. Returns whether it is sent whole.
  bool advance(std::size_t count);
  // From now on it does not refer to memory of the caller.
  void keep();

 private:
  StripeHead head_;
  std::shared_ptr<const Blocks> blocks_;
  std::size_t at_;  // of its first byte in blocks_
  std::size_t sent_ = 0;
};

class StripeQueue {
 public:
  // REQUIRES: it is striped, and its front is sent.
  void push(RpcMessage message);
  [[nodiscard]] bool is_empty() const { return messages_.empty(); }
  // The next one. It is sent before later ones of the same connection.
  std::optional<Stripe> next();
  // The memory of the callers of these messages is not read from now on.
  void keep(std::span<const std::uint64_t> numbers);

 private:
  // Messages that take turns. The others wait, and the receiver's limit is kept.
  static constexpr std::size_t most_in_turns = 16;

  struct Message {
    std::uint64_t number;
    std::shared_ptr<const Stripe::Blocks> blocks;
    std::shared_ptr<codec::MessageNote> note;
    std::size_t size;
    std::size_t begun = 0;  // bytes that stripes have been made of
  };
  std::deque<Message> messages_;  // whose turn is next, first
};

}  // namespace dlaunch::internal
