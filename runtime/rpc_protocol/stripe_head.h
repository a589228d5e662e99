// The blocks of a long message may travel as stripes on several connections at the same time (as the data of
// a striped disk array do). Its front travels on the connection of the two workers' other messages.
//
// A connection for stripes carries nothing else: heads, and behind each the bytes of its stripe. Stripes of a
// message may arrive in any order, and before its front.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "runtime/rpc_protocol/part_head.h"

namespace dlaunch::internal {

struct StripeHead {
  static constexpr std::uint32_t stripe = PartHead::striped_result + 1;
  static constexpr std::size_t size = 32;
  // Of all stripes of a message but the last one, in bytes.
  static constexpr std::size_t length_of_one = std::size_t{256} * 1024;

  std::uint32_t kind = stripe;
  std::uint32_t length = 0;  // bytes behind the head
  std::uint64_t number = 0;  // of the message
  std::uint64_t at = 0;      // where the stripe begins in the blocks
  std::uint64_t blocks = 0;  // bytes of the message's blocks

  // REQUIRES: `at` is the beginning of a stripe.
  static StripeHead of(std::uint64_t number, std::uint64_t at, std::uint64_t blocks) {
    const std::uint64_t length = std::min<std::uint64_t>(length_of_one, blocks - at);
    return {stripe, static_cast<std::uint32_t>(length), number, at, blocks};
  }
  // None: not a head of this version.
  static std::optional<StripeHead> parse(std::span<const std::byte, size> bytes) {
    StripeHead head;
    std::memcpy(&head, bytes.data(), size);
    if (head.kind != stripe || head.blocks > PartHead::longest_message) return std::nullopt;
    if (head.at >= head.blocks || head.at % length_of_one != 0) return std::nullopt;
    if (head.length != of(head.number, head.at, head.blocks).length) return std::nullopt;
    return head;
  }
};
static_assert(sizeof(StripeHead) == StripeHead::size && std::is_trivially_copyable_v<StripeHead>);

}  // namespace dlaunch::internal
