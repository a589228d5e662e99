#include "runtime/rpc_protocol/message_reader.h"

#include <algorithm>
#include <utility>

namespace dlaunch::internal {

namespace {

// Of an announced length, so much address space is taken at once.
constexpr std::uint64_t reserved_at_once = std::uint64_t{1} << 30;
// A rest that is shorter goes through the buffer, where the next parts may follow it.
constexpr std::size_t read_directly_from = std::size_t{16} * 1024;

}  // namespace

std::span<std::byte> MessageReader::space() {
  if (part_ && part_->missing >= read_directly_from) {
    std::string& body = open_.at(part_->head.number).body;
    const std::size_t before = body.size();
    body.resize(before + part_->missing);
    return std::as_writable_bytes(std::span(body)).subspan(before);
  }
  if (parsed_ > 0) {
    std::move(buffer_.begin() + static_cast<std::ptrdiff_t>(parsed_),
              buffer_.begin() + static_cast<std::ptrdiff_t>(filled_), buffer_.begin());
    filled_ -= std::exchange(parsed_, 0);
  }
  return std::span(buffer_).subspan(filled_);
}

std::optional<std::string> MessageReader::advance(std::size_t count, std::vector<RpcMessage>& complete) {
  if (part_ && part_->missing >= read_directly_from) {
    std::string& body = open_.at(part_->head.number).body;
    body.resize(body.size() - (part_->missing - count));
    part_->missing -= count;
    if (part_->missing == 0) end_part(complete);
    return std::nullopt;
  }
  filled_ += count;
  return parse(complete);
}

std::optional<std::string> MessageReader::parse(std::vector<RpcMessage>& complete) {
  for (;;) {
    const std::span<const std::byte> bytes = std::span(buffer_).subspan(parsed_, filled_ - parsed_);
    if (!part_) {
      if (bytes.size() < PartHead::size) return std::nullopt;
      const std::optional<PartHead> head = PartHead::parse(bytes.first<PartHead::size>());
      if (!head) return "it has sent bytes that are no message";
      if (std::optional<std::string> wrong = begin_part(*head)) return wrong;
      parsed_ += PartHead::size;
    } else {
      const std::size_t here = std::min(part_->missing, bytes.size());
      open_.at(part_->head.number).body.append(reinterpret_cast<const char*>(bytes.data()), here);
      parsed_ += here;
      part_->missing -= here;
      if (part_->missing > 0) return std::nullopt;
    }
    if (part_->missing == 0) end_part(complete);
  }
}

std::optional<std::string> MessageReader::begin_part(const PartHead& head) {
  const auto kind = static_cast<PartHead::Kind>(head.kind);
  auto at = open_.find(head.number);
  if (at == open_.end()) {
    if (open_.size() == most_open) return "it has begun too many messages at once";
    at = open_.emplace(head.number, OpenMessage{kind, head.total, {}}).first;
  }
  const OpenMessage& message = at->second;
  if (message.kind != kind || message.total != head.total || head.length > head.total - message.body.size())
    return "it has sent a part that does not belong to its message";
  part_ = Part{head, head.length};
  return std::nullopt;
}

void MessageReader::end_part(std::vector<RpcMessage>& complete) {
  const auto at = open_.find(part_->head.number);
  part_.reset();
  OpenMessage& message = at->second;
  if (message.body.size() < message.total) {
    // A whole part has come: the rest will, too.
    if (message.body.size() == PartHead::longest_part) {
      message.body.reserve(static_cast<std::size_t>(std::min(message.total, reserved_at_once)));
    }
    return;
  }
  complete.push_back({message.kind, at->first, std::move(message.body)});
  open_.erase(at);
}

}  // namespace dlaunch::internal
