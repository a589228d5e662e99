#include "runtime/point_to_point/outbox.h"

#include <cstring>
#include <utility>

namespace dlaunch::internal {

namespace {

// A block under way, with its memory.
class SentBlock final : public Transfer {
 public:
  SentBlock(Transport& transport, int peer, std::vector<std::byte> block)
      : block_(std::move(block)), transfer_(transport.post_send(peer, envelope_slot, block_)) {}
  void wait(Deadline deadline) override { transfer_->wait(deadline); }
  bool wait_until(Deadline deadline) override { return transfer_->wait_until(deadline); }

 private:
  const std::vector<std::byte> block_;
  const std::unique_ptr<Transfer> transfer_;
};

}  // namespace

void Outbox::add(const Envelope& envelope, std::span<const std::byte> content) {
  waiting_.push_back({envelope, {content.begin(), content.end()}});
}

Outbox::Blocks Outbox::receive(std::uint64_t acknowledged) {
  ++unacknowledged_;
  Blocks arrived;
  for (; acknowledged > 0 && !posted_.empty(); --acknowledged) {
    arrived.push_back(std::move(posted_.front()));
    posted_.pop_front();
  }
  return arrived;
}

void Outbox::post(Transport& transport, int peer, const Fill& fill) {
  while (may_post()) {
    std::vector<std::byte> block = next_block(fill);
    if (!block.empty()) posted_.push_back(std::make_unique<SentBlock>(transport, peer, std::move(block)));
  }
}

bool Outbox::may_post() const {
  return (has_waiting() && posted_.size() < window) || unacknowledged_ >= window / 2;
}

// As many waiting envelopes as fit, without those that are cancelled; empty if there are none.
std::vector<std::byte> Outbox::next_block(const Fill& fill) {
  if (!has_waiting()) add({.kind = Envelope::Kind::credit});
  std::vector<std::byte> block;
  std::size_t last = 0;  // start of the last envelope
  while (has_waiting() && block.size() + waiting_.front().size() <= envelope_block) {
    PendingEnvelope next = std::move(waiting_.front());
    waiting_.pop_front();
    const std::size_t begin = block.size();
    if (begin == 0) next.envelope.acknowledged = unacknowledged_;
    block.resize(begin + next.size());
    std::byte* const content = block.data() + begin + sizeof next.envelope;
    if (next.envelope.kind == Envelope::Kind::data) {
      if (!fill(next.envelope, content)) {
        block.resize(begin);
        continue;
      }
    } else if (!next.content.empty()) {
      std::memcpy(content, next.content.data(), next.content.size());
    }
    std::memcpy(block.data() + begin, &next.envelope, sizeof next.envelope);
    if (begin > 0) block[last + offsetof(Envelope, is_last)] = std::byte{0};
    last = begin;
  }
  if (!block.empty()) unacknowledged_ = 0;
  return block;
}

}  // namespace dlaunch::internal
