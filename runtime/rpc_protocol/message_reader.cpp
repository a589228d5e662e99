#include "runtime/rpc_protocol/message_reader.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/base/block_memory.h"

namespace dlaunch::internal {

namespace {

// Of an announced front, so much address space is taken at once.
constexpr std::uint64_t reserved_at_once = std::uint64_t{1} << 30;
// A rest that is shorter goes through the buffer, where the next parts may follow it.
constexpr std::size_t read_directly_from = std::size_t{16} * 1024;

}  // namespace

// Between two parts of a long message only the head is read to the buffer, so the bytes behind it are read
// directly.
MessageReader::Space MessageReader::space() {
  if (parsed_ > 0) {
    std::move(buffer_.begin() + static_cast<std::ptrdiff_t>(parsed_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
    filled_ -= std::exchange(parsed_, 0);
  }
  const Space found{direct_space(), std::span(buffer_).subspan(filled_)};
  direct_ = found.direct.size();
  const bool only_head = direct_ > 0 ? continues_ : expects_long_ && !part_;
  if (!only_head) return found;
  return {found.direct, found.buffer.first(PartHead::size - filled_)};
}

std::span<std::byte> MessageReader::direct_space() {
  if (!part_ || part_->missing < read_directly_from) return {};
  const OpenMessage& message = open_.at(part_->head.number);
  if (message.front.size() < message.size_of_front()) return {};
  continues_ = message.size() + part_->missing < message.head.total;
  return {message.blocks.get() + message.filled, part_->missing};
}

std::optional<std::string> MessageReader::advance(std::size_t count, std::vector<RpcMessage>& complete) {
  const std::size_t direct = std::min(count, std::exchange(direct_, 0));
  if (direct > 0) {
    open_.at(part_->head.number).filled += direct;
    part_->missing -= direct;
    if (part_->missing == 0) {
      expects_long_ = continues_;
      end_part(complete);
    }
  }
  filled_ += count - direct;
  return parse(complete);
}

std::optional<std::string> MessageReader::parse(std::vector<RpcMessage>& complete) {
  for (;;) {
    const std::span<const std::byte> bytes = std::span(buffer_).subspan(parsed_, filled_ - parsed_);
    if (!part_) {
      if (bytes.size() < PartHead::size) return std::nullopt;
      const std::optional<PartHead> head = PartHead::parse(bytes.first<PartHead::size>());
      if (!head) return "it has sent bytes that are no message";
      if (is_whole(*head, bytes)) {
        take_whole(*head, bytes.subspan(PartHead::size), complete);
        continue;
      }
      if (std::optional<std::string> wrong = begin_part(*head)) return wrong;
      parsed_ += PartHead::size;
      expects_long_ = false;
    } else {
      const std::size_t here = std::min(part_->missing, bytes.size());
      append(open_.at(part_->head.number), bytes.first(here));
      parsed_ += here;
      part_->missing -= here;
      if (part_->missing > 0) return std::nullopt;
    }
    if (part_->missing == 0) end_part(complete);
  }
}

// Whether the part is a message without blocks, and is there. So are most: they are not kept among those that
// have begun.
bool MessageReader::is_whole(const PartHead& head, std::span<const std::byte> bytes) const {
  return head.length == head.total && head.blocks == 0 && bytes.size() - PartHead::size >= head.length &&
         open_.size() < most_open && (open_.empty() || !open_.contains(head.number));
}

void MessageReader::take_whole(const PartHead& head, std::span<const std::byte> behind,
                               std::vector<RpcMessage>& complete) {
  const auto* const text = reinterpret_cast<const char*>(behind.data());
  complete.push_back({static_cast<PartHead::Kind>(head.kind), head.number, std::string(text, head.length)});
  parsed_ += PartHead::size + head.length;
  expects_long_ = false;
}

void MessageReader::append(OpenMessage& message, std::span<const std::byte> bytes) {
  const auto in_front = static_cast<std::size_t>(
      std::min<std::uint64_t>(bytes.size(), message.size_of_front() - message.front.size()));
  message.front.append(reinterpret_cast<const char*>(bytes.data()), in_front);
  if (in_front == bytes.size()) return;
  std::memcpy(message.blocks.get() + message.filled, bytes.data() + in_front, bytes.size() - in_front);
  message.filled += bytes.size() - in_front;
}

std::optional<std::string> MessageReader::begin_part(const PartHead& head) {
  auto at = open_.find(head.number);
  if (at == open_.end()) {
    if (open_.size() == most_open) return "it has begun too many messages at once";
    OpenMessage message{head};
    try {
      if (head.blocks > 0) message.blocks = allocate_block(head.blocks);
    } catch (const std::bad_alloc&) {
      return "there is no memory for a message of " + std::to_string(head.total) + " bytes that it has begun";
    }
    at = open_.emplace(head.number, std::move(message)).first;
  }
  const OpenMessage& message = at->second;
  if (message.head.kind != head.kind || message.head.total != head.total ||
      message.head.blocks != head.blocks || head.length > head.total - message.size())
    return "it has sent a part that does not belong to its message";
  part_ = Part{head, head.length};
  return std::nullopt;
}

void MessageReader::end_part(std::vector<RpcMessage>& complete) {
  const auto at = open_.find(part_->head.number);
  part_.reset();
  OpenMessage& message = at->second;
  if (message.size() < message.head.total) {
    // A whole part has come: the rest will, too.
    if (message.front.size() == PartHead::longest_part) {
      message.front.reserve(static_cast<std::size_t>(std::min(message.size_of_front(), reserved_at_once)));
    }
    return;
  }
  RpcMessage& done = complete.emplace_back();
  done.kind = static_cast<PartHead::Kind>(message.head.kind);
  done.number = at->first;
  done.body.front = std::move(message.front);
  if (message.blocks) done.body.blocks.push_back({std::move(message.blocks), message.filled});
  open_.erase(at);
}

}  // namespace dlaunch::internal
