#include "runtime/rpc_protocol/send_queue.h"

#include <algorithm>
#include <utility>

#include "runtime/rpc_protocol/cut.h"

namespace dlaunch::internal {

namespace {

// Short messages between two parts of long ones.
constexpr std::size_t most_short_in_a_row = 32;

bool is_striped(std::uint32_t kind) {
  return kind == PartHead::striped_request || kind == PartHead::striped_result;
}

}  // namespace

void SendQueue::push(RpcMessage message) {
  const std::size_t blocks = is_striped(message.kind) ? 0 : message.body.size_of_blocks();
  const std::size_t size = message.body.front.size() + blocks;
  bytes_ += size;
  messages_.push_back({{message.kind, 0, message.number, size, blocks}, std::move(message.body)});
  (size <= short_message ? short_ : long_).push_back(std::prev(messages_.end()));
}

PartHead SendQueue::head_of(const RpcMessage& message) {
  const std::size_t size = message.body.front.size();
  return {message.kind, static_cast<std::uint32_t>(size), message.number, size, 0};
}

void SendQueue::push_begun(RpcMessage message, std::size_t sent) {
  push(std::move(message));
  (void)schedule();
  advance(sent);
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
  const bool is_complete = message->begun == message->head.total;
  if (!is_complete) {
    const std::size_t turn = std::min(long_.size(), most_in_turns - 1);
    long_.insert(long_.begin() + static_cast<std::ptrdiff_t>(turn), message);
  }
  return true;
}

void SendQueue::schedule_part(Place message) {
  PartHead head = message->head;
  const std::size_t left = message->head.total - message->begun;
  head.length = static_cast<std::uint32_t>(std::min(left, PartHead::longest_part));
  scheduled_.push_back({head, message, message->begun});
  message->begun += head.length;
}

// What is not sent yet of the part. Returns how many pieces; if they are all, it may be less than the whole.
std::size_t SendQueue::add_pieces(const Part& part, Pieces pieces) {
  std::size_t heads = 0;
  if (part.sent < PartHead::size)
    pieces[heads++] = std::as_bytes(std::span(&part.head, 1)).subspan(part.sent);
  const codec::Bytes& body = part.message->body;
  const std::size_t sent = std::max(part.sent, PartHead::size) - PartHead::size;
  Cut cut(part.at + sent, part.at + part.head.length, pieces.subspan(heads));
  cut.pass(std::as_bytes(std::span(body.front)));
  if (part.head.blocks > 0) cut.pass_blocks(body.blocks);
  return heads + cut.used();
}

std::span<const std::span<const std::byte>> SendQueue::next(Pieces pieces) {
  std::size_t used = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; used + 2 <= pieces.size() && bytes < PartHead::longest_part; ++i) {
    if (i == scheduled_.size() && !schedule()) break;
    used += add_pieces(scheduled_[i], pieces.subspan(used));
    bytes += scheduled_[i].head.length;
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
    const bool is_last = part.at + part.head.length == message->head.total;
    scheduled_.pop_front();
    if (!is_last) continue;
    if (is_striped(message->head.kind)) {
      striped_.push_back(
          {static_cast<PartHead::Kind>(message->head.kind), message->head.number, std::move(message->body)});
    }
    messages_.erase(message);
  }
}

std::unordered_set<std::uint64_t> SendQueue::withdraw(std::span<const std::uint64_t> numbers) {
  const std::unordered_set<std::uint64_t> wanted(numbers.begin(), numbers.end());
  std::unordered_set<std::uint64_t> dropped;
  for (Place at = messages_.begin(); at != messages_.end();) {
    const Place message = at++;
    if (!wanted.contains(message->head.number)) continue;
    if (message->touched) {
      for (codec::Block& block : message->body.blocks) {
        if (block.data.use_count() == 0) block = codec::copy_of(block.data.get(), block.size);
      }
    } else {
      dropped.insert(message->head.number);
      forget(message);
    }
  }
  return dropped;
}

// REQUIRES: no byte of it was sent.
void SendQueue::forget(Place message) {
  std::erase(short_, message);
  std::erase(long_, message);
  std::erase_if(scheduled_, [&](const Part& part) { return part.message == message; });
  bytes_ -= message->head.total;
  messages_.erase(message);
}

std::unordered_set<std::uint64_t> SendQueue::untouched() const {
  std::unordered_set<std::uint64_t> numbers;
  for (const Message& message : messages_) {
    if (!message.touched) numbers.insert(message.head.number);
  }
  return numbers;
}

}  // namespace dlaunch::internal
