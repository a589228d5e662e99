// Messages between two workers are sent in parts, so that a long one does not delay the others.
//
// A connection carries the calls of the side that made it, and the answers of the other side. Each part is a
// head and the bytes behind it. Parts of several messages may alternate; those of one message are in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

namespace dlaunch::internal {

struct PartHead {
  enum Kind : std::uint32_t {
    hello = 1,        // the first message of the side that connects: which worker it is
    request,          // a call; no other that waits for an answer on this connection has its `number`
    result,           // the answer to the call `number`
    failure,          // in place of the answer to the call `number`: why there is none
    goodbye,          // the sender ends its remote calls: no more messages follow
    striped_request,  // a call; its blocks follow on other connections (stripe_head.h), and the message ends
                      // with their size: 8 bytes
    striped_result,   // an answer in the same way
  };
  static constexpr std::size_t size = 32;
  static constexpr std::size_t longest_part = std::size_t{256} * 1024;
  static constexpr std::uint64_t longest_message = std::uint64_t{1} << 40;

  std::uint32_t kind = 0;
  std::uint32_t length = 0;  // bytes of this part behind the head; 0 only if the message has none
  std::uint64_t number = 0;
  std::uint64_t total = 0;   // bytes of the message
  std::uint64_t blocks = 0;  // bytes of its blocks, which are its end (dlaunch/bytes.h)

  // None: not a head of this version.
  static std::optional<PartHead> parse(std::span<const std::byte, size> bytes) {
    PartHead head;
    std::memcpy(&head, bytes.data(), size);
    if (head.kind < hello || head.kind > striped_result) return std::nullopt;
    if (head.length > longest_part || head.total > longest_message || head.length > head.total)
      return std::nullopt;
    if (head.length == 0 && head.total != 0) return std::nullopt;
    if (head.blocks > head.total) return std::nullopt;
    return head;
  }
};
static_assert(sizeof(PartHead) == PartHead::size && std::is_trivially_copyable_v<PartHead>);

}  // namespace dlaunch::internal
