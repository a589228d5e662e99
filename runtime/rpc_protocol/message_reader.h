// Puts the messages of a connection together from the bytes that arrive.
//
// Bytes are read to space(), which is the message itself for long parts: they are copied once less. An
// announced length alone takes no memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dlaunch/bytes.h"
#include "runtime/rpc_protocol/part_head.h"

namespace dlaunch::internal {

struct RpcMessage {
  PartHead::Kind kind;
  std::uint64_t number;
  codec::Bytes body;  // of one that has arrived: one block at most
};

class MessageReader {
 public:
  // Messages that have begun and are not complete. A sender begins fewer.
  static constexpr std::size_t most_open = 1024;

  // Where the next bytes belong: first `direct`, which may be empty, then `buffer`, which is not.
  struct Space {
    std::span<std::byte> direct;
    std::span<std::byte> buffer;

    [[nodiscard]] std::size_t size() const { return direct.size() + buffer.size(); }
  };
  Space space();
  // So many bytes were stored there. Appends the messages that are complete now. Returns what is wrong with
  // the bytes, after which the reader is not to be used; none: nothing.
  std::optional<std::string> advance(std::size_t count, std::vector<RpcMessage>& complete);

 private:
  static constexpr std::size_t buffer_size = std::size_t{64} * 1024;

  // The part that is being read. Its message is in open_.
  struct Part {
    PartHead head;
    std::size_t missing = 0;  // bytes
  };
  struct OpenMessage {
    PartHead head;  // the first
    std::string front = {};
    std::shared_ptr<std::byte> blocks = {};
    std::size_t filled = 0;  // bytes of the blocks

    [[nodiscard]] std::uint64_t size() const { return front.size() + filled; }
    [[nodiscard]] std::uint64_t size_of_front() const { return head.total - head.blocks; }
  };

  std::optional<std::string> parse(std::vector<RpcMessage>& complete);
  [[nodiscard]] bool is_whole(const PartHead& head, std::span<const std::byte> bytes) const;
  void take_whole(const PartHead& head, std::span<const std::byte> behind, std::vector<RpcMessage>& complete);
  std::optional<std::string> begin_part(const PartHead& head);
  void end_part(std::vector<RpcMessage>& complete);
  static void append(OpenMessage& message, std::span<const std::byte> bytes);
  std::span<std::byte> direct_space();

  std::vector<std::byte> buffer_ = std::vector<std::byte>(buffer_size);
  std::size_t parsed_ = 0;  // bytes of the buffer
  std::size_t filled_ = 0;
  std::optional<Part> part_;
  std::size_t direct_ = 0;                               // bytes of the space that space() returned last
  bool continues_ = false;                               // that space is not the end of its message
  bool expects_long_ = false;                            // the next part, as the last one was
  std::unordered_map<std::uint64_t, OpenMessage> open_;  // by number
};

}  // namespace dlaunch::internal
