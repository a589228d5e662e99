// What travels on a connection between two processes: frames, each a header and the bytes behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>

#include "dlaunch/transport.h"

namespace dlaunch {

// A group's end of the connections of its process, as the process at the other end calls it.
using ContextId = std::uint32_t;

struct Frame {
  enum Kind : std::uint32_t {
    wants = 1,       // from now on the receiver of this slot takes messages from any rank
    offer,           // a send to such a slot waits; one for each
    ready,           // a receive is posted; one for each
    data,            // a part of the message that the oldest `ready` has asked for
    done,            // it was the last part
    dropped,         // no more parts will come, and what has come is of no use
    eager,           // a message of the group's eager channel
    credit,          // half of what the channel holds has been released
    goodbye,         // the sender leaves the group: GoodbyeMessage
    progress_query,  // which operation has the receiver come to?
    goodbye_ack,     // the answer to a goodbye, by the process: everything before that has arrived
    gone,            // the answer to what comes for a group that the process is not in, or no more
    progress_reply,  // to a question: `number`
  };
  static constexpr std::size_t size = 32;
  static constexpr std::size_t longest_part = std::size_t{256} * 1024;          // of `data`
  static constexpr std::size_t longest_whole = EagerChannel::max_message_size;  // of all other kinds

  std::uint32_t kind = 0;
  ContextId context_id = 0;   // the receiver's
  std::uint32_t rank = 0;     // the sender's in the group
  std::uint32_t length = 0;   // bytes behind the header
  std::uint64_t number = 0;   // a slot, or what the kind says
  ContextId answer_to = 0;    // the sender's
  std::uint32_t to_rank = 0;  // the receiver's

  // What may be answered by the process if the group is gone there.
  [[nodiscard]] bool is_for_member() const { return kind < goodbye_ack; }

  using Bytes = std::array<std::byte, size>;
  [[nodiscard]] Bytes bytes() const {
    Bytes result;
    std::memcpy(result.data(), this, size);
    return result;
  }

  // None: no frame of this version begins so.
  static std::optional<Frame> parse(std::span<const std::byte, size> bytes) {
    Frame frame;
    std::memcpy(&frame, bytes.data(), size);
    if (frame.kind < wants || frame.kind > progress_reply) return std::nullopt;
    if (frame.length > (frame.kind == data ? longest_part : longest_whole)) return std::nullopt;
    return frame;
  }
};
static_assert(sizeof(Frame) == Frame::size && std::is_trivially_copyable_v<Frame>);

}  // namespace dlaunch
