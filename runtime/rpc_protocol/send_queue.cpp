#include "runtime/rpc_protocol/send_queue.h"

#include <algorithm>
#include <utility>

namespace dlaunch::internal {

namespace {

// Short messages between two parts of long ones.
constexpr std::size_t most_short_in_a_row = 32;

}  // namespace

void SendQueue::push(RpcMessage message) {
  const std::size_t size = message.body.size();
  bytes_ += size;
  messages_.push_back({{message.kind, 0, message.number, size}, std::move(message.body)});
  (size <= short_message ? short_ : long_).push_back(std::prev(messages_.end()));
}

// Makes one part of the message whose turn it is; false: there is none.
bool SendQueue::schedule() {
  const bool is_long_turn = !long_.empty() && (short_.empty() || short_in_a_row_ >= most_short_in_a_row);
  if (!is_long_turn) {
    if (short_.empty()) return false;
    ++short_in_a_row_;
    schedule_part(short_.front());
    short_.pop_front();
    return true;
  }
  short_in_a_row_ = 0;
  const Place message = long_.front();
  schedule_part(message);
  long_.pop_front();
  const bool is_complete = message->begun == message->body.size();
  if (!is_complete) {
    const std::size_t turn = std::min(long_.size(), most_in_turns - 1);
    long_.insert(long_.begin() + static_cast<std::ptrdiff_t>(turn), message);
  }
  return true;
}

void SendQueue::schedule_part(Place message) {
  PartHead head = message->head;
  const std::size_t left = message->body.size() - message->begun;
  head.length = static_cast<std::uint32_t>(std::min(left, PartHead::longest_part));
  scheduled_.push_back({head, message, message->begun});
  message->begun += head.length;
}

std::span<const std::span<const std::byte>> SendQueue::next(std::span<std::span<const std::byte>> pieces) {
  std::size_t used = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; used + 2 <= pieces.size() && bytes < PartHead::longest_part; ++i) {
    if (i == scheduled_.size() && !schedule()) break;
    const Part& part = scheduled_[i];
    const auto head = std::as_bytes(std::span(&part.head, 1));
    const auto body = std::as_bytes(std::span(part.message->body)).subspan(part.at, part.head.length);
    if (part.sent < head.size()) pieces[used++] = head.subspan(part.sent);
    const std::size_t of_body = std::max(part.sent, head.size()) - head.size();
    if (of_body < body.size()) pieces[used++] = body.subspan(of_body);
    bytes += body.size();
  }
  return pieces.first(used);
}

void SendQueue::advance(std::size_t count) {
  while (count > 0) {
    Part& part = scheduled_.front();
    part.message->touched = true;
    const std::size_t whole = PartHead::size + part.head.length;
    const std::size_t here = std::min(count, whole - part.sent);
    part.sent += here;
    count -= here;
    if (part.sent < whole) return;
    const Place message = part.message;
    bytes_ -= part.head.length;
    const bool is_last = part.at + part.head.length == message->body.size();
    scheduled_.pop_front();
    if (is_last) messages_.erase(message);
  }
}

std::unordered_set<std::uint64_t> SendQueue::untouched() const {
  std::unordered_set<std::uint64_t> numbers;
  for (const Message& message : messages_) {
    if (!message.touched) numbers.insert(message.head.number);
  }
  return numbers;
}

}  // namespace dlaunch::internal
