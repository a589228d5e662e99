#include "runtime/rpc_protocol/stripe_table.h"

#include <new>
#include <utility>

#include "runtime/base/block_memory.h"
#include "store/base/bytes.h"

namespace dlaunch::internal {

std::optional<std::string> StripeTable::begin(const StripeHead& head, std::span<std::byte>& place) {
  if (std::optional<std::string> wrong = open(head.number, head.blocks)) return wrong;
  Open& message = open_.at(head.number);
  if (!claim(message, head.at / StripeHead::length_of_one)) return "it has sent a stripe twice";
  place = {message.blocks.get() + head.at, head.length};
  return std::nullopt;
}

// The message exists afterwards, and has that size.
std::optional<std::string> StripeTable::open(std::uint64_t number, std::uint64_t size) {
  const auto at = open_.find(number);
  if (at != open_.end()) {
    if (at->second.size == size) return std::nullopt;
    return "it has sent a stripe that does not belong to its message";
  }
  if (open_.size() == most_open) return "it has begun too many messages at once";
  try {
    open_.emplace(number, Open{size, allocate_block(size)});
  } catch (const std::bad_alloc&) {
    return "there is no memory for a message of " + std::to_string(size) + " bytes that it has begun";
  }
  return std::nullopt;
}

// False: it has begun already. Stripes are sent in order: few others are behind one that is missing.
bool StripeTable::claim(Open& message, std::uint64_t stripe) {
  if (stripe < message.all_before || !message.others.insert(stripe).second) return false;
  while (message.others.erase(message.all_before) > 0) ++message.all_before;
  return true;
}

std::optional<RpcMessage> StripeTable::end(const StripeHead& head) {
  open_.at(head.number).stored += head.length;
  return take_if_complete(head.number);
}

std::optional<std::string> StripeTable::add_front(RpcMessage& message, bool& is_complete) {
  std::string& front = message.body.front;
  if (front.size() < sizeof(std::uint64_t)) return "it has sent a striped message without a size";
  const std::size_t rest = front.size() - sizeof(std::uint64_t);
  const std::uint64_t size = ByteReader(as_byte_span(std::string_view(front).substr(rest))).u64();
  if (size == 0 || size > PartHead::longest_message) return "it has sent a striped message of a wrong size";
  if (std::optional<std::string> wrong = open(message.number, size)) return wrong;
  Open& whole = open_.at(message.number);
  if (whole.front) return "it has sent the front of a message twice";
  front.resize(rest);
  message.kind = message.kind == PartHead::striped_request ? PartHead::request : PartHead::result;
  const std::uint64_t number = message.number;
  whole.front = std::move(message);
  std::optional<RpcMessage> complete = take_if_complete(number);
  is_complete = complete.has_value();
  if (complete) message = *std::move(complete);
  return std::nullopt;
}

std::optional<RpcMessage> StripeTable::take_if_complete(std::uint64_t number) {
  const auto at = open_.find(number);
  Open& message = at->second;
  if (!message.front || message.stored < message.size) return std::nullopt;
  std::optional<RpcMessage> complete = std::move(message.front);
  complete->body.blocks.push_back({std::move(message.blocks), message.size});
  open_.erase(at);
  return complete;
}

}  // namespace dlaunch::internal
