#include "runtime/rpc_protocol/stripe_queue.h"

#include <algorithm>
#include <utility>

#include "runtime/base/block_memory.h"
#include "runtime/rpc_protocol/cut.h"
#include "store/base/bytes.h"

namespace dlaunch::internal {

void make_striped(RpcMessage& message) {
  message.kind = message.kind == PartHead::request ? PartHead::striped_request : PartHead::striped_result;
  ByteWriter(message.body.front).u64(message.body.size_of_blocks());
}

std::span<const std::span<const std::byte>> Stripe::pieces(
    std::span<std::span<const std::byte>> places) const {
  std::size_t heads = 0;
  if (sent_ < StripeHead::size) places[heads++] = std::as_bytes(std::span(&head_, 1)).subspan(sent_);
  const std::size_t sent = std::max(sent_, StripeHead::size) - StripeHead::size;
  Cut cut(at_ + sent, at_ + head_.length, places.subspan(heads));
  cut.pass_blocks(*blocks_);
  return places.first(heads + cut.used());
}

bool Stripe::advance(std::size_t count) {
  sent_ += count;
  return sent_ == StripeHead::size + head_.length;
}

void Stripe::keep() {
  const auto has_owner = [](const codec::Block& block) { return block.data.use_count() > 0; };
  if (std::ranges::all_of(*blocks_, has_owner)) return;
  const std::shared_ptr<std::byte> copy = allocate_block(head_.length);
  std::size_t copied = 0;
  while (copied < head_.length) {
    std::span<const std::byte> places[16];
    Cut cut(at_ + copied, at_ + head_.length, places);
    cut.pass_blocks(*blocks_);
    for (const auto piece : std::span(places).first(cut.used())) {
      std::ranges::copy(piece, copy.get() + copied);
      copied += piece.size();
    }
  }
  blocks_ = std::make_shared<const Blocks>(Blocks{{copy, head_.length}});
  at_ = 0;
}

void StripeQueue::push(RpcMessage message) {
  const std::size_t size = message.body.size_of_blocks();
  messages_.push_back({message.number, std::make_shared<const Stripe::Blocks>(std::move(message.body.blocks)),
                       std::move(message.body.note), size});
}

std::optional<Stripe> StripeQueue::next() {
  if (messages_.empty()) return std::nullopt;
  Message message = std::move(messages_.front());
  messages_.pop_front();
  const StripeHead head = StripeHead::of(message.number, message.begun, message.size);
  Stripe stripe(head, message.blocks);
  message.begun += head.length;
  if (message.begun < message.size) {
    const std::size_t turn = std::min(messages_.size(), most_in_turns - 1);
    messages_.insert(messages_.begin() + static_cast<std::ptrdiff_t>(turn), std::move(message));
  }
  return stripe;
}

void StripeQueue::keep(std::span<const std::uint64_t> numbers) {
  for (Message& message : messages_) {
    if (std::ranges::find(numbers, message.number) == numbers.end()) continue;
    Stripe::Blocks blocks = *message.blocks;
    for (codec::Block& block : blocks) {
      if (block.data.use_count() == 0) block = codec::copy_of(block.data.get(), block.size);
    }
    message.blocks = std::make_shared<const Stripe::Blocks>(std::move(blocks));
  }
}

}  // namespace dlaunch::internal
