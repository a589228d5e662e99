// The frames of a connection between two processes: each is a header and the bytes behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "dlaunch/transport.h"
#include "runtime/sockets/handshake.h"

namespace dlaunch::internal {

struct Frame {
  enum Kind : std::uint32_t {
    wants = 1,       // the receiver of this slot now takes messages from any rank
    offer,           // one for each send that waits for such a slot
    ready,           // one for each posted receive
    data,            // a part of the message for the oldest `ready`
    done,            // that part was the last one
    dropped,         // no more parts follow, and the earlier ones are useless
    eager,           // a message of the group's eager channel
    credit,          // the receiver has released half of the channel's messages
    goodbye,         // the sender leaves the group: GoodbyeMessage
    progress_query,  // which operation is the receiver in?
    goodbye_ack,     // the process's answer to a goodbye: everything before it has arrived
    gone,            // the answer to a frame for a group that the process is not in, or has left
    progress_reply,  // the answer to a query, in `number`
  };
  static constexpr std::size_t size = 32;
  static constexpr std::size_t longest_part = std::size_t{256} * 1024;          // of `data`
  static constexpr std::size_t longest_whole = EagerChannel::max_message_size;  // of all other kinds

  std::uint32_t kind = 0;
  ContextId context_id = 0;   // the receiver's
  std::uint32_t rank = 0;     // the sender's in the group
  std::uint32_t length = 0;   // bytes behind the header
  std::uint64_t number = 0;   // a slot, or a number that depends on the kind
  ContextId answer_to = 0;    // the sender's
  std::uint32_t to_rank = 0;  // the receiver's

  // Whether the process answers it, if the group is gone there.
  [[nodiscard]] bool is_for_member() const { return kind < goodbye_ack; }

  using Bytes = std::array<std::byte, size>;
  [[nodiscard]] Bytes bytes() const {
    Bytes result;
    std::memcpy(result.data(), this, size);
    return result;
  }

  // None: not the header of a frame of this version.
  static std::optional<Frame> parse(std::span<const std::byte, size> bytes) {
    Frame frame;
    std::memcpy(&frame, bytes.data(), size);
    if (frame.kind < wants || frame.kind > progress_reply) return std::nullopt;
    if (frame.length > (frame.kind == data ? longest_part : longest_whole)) return std::nullopt;
    return frame;
  }
};
static_assert(sizeof(Frame) == Frame::size && std::is_trivially_copyable_v<Frame>);

}  // namespace dlaunch::internal
