// Envelopes to one peer, from writing to acknowledgement.
//
// A block costs a message of the transport: a round trip of request and block, and two thread switches. So
// only `window` blocks are under way at a time. An envelope that finds room is sent at once; the others wait,
// and the next block takes as many as fit. The first envelope of any block acknowledges the peer's blocks.
// After half a window a rank sends a block for this alone, which needs no room: so two ranks without room do
// not deadlock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dlaunch/transport.h"
#include "runtime/point_to_point/envelope.h"

namespace dlaunch::internal {

// Not thread-safe.
class Outbox {
 public:
  static constexpr std::size_t window = 8;

  // The envelope, and a copy of its content; the content of "data" is requested when they are sent.
  void add(const Envelope& envelope, std::span<const std::byte> content = {});
  // Writes the content of "data". False: cancelled.
  using Fill = std::function<bool(const Envelope& envelope, std::byte* content)>;

  using Blocks = std::deque<std::unique_ptr<Transfer>>;
  // A block of the peer acknowledges so many blocks of this rank: they have arrived, so a wait for them takes
  // no time.
  Blocks receive(std::uint64_t acknowledged);

  // Sends what may go. Throws as Transport::post_send does; then nothing more is sent.
  void post(Transport& transport, int peer, const Fill& fill);

  // Whether envelopes wait for room.
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
  void drop_waiting() { waiting_.clear(); }
  // The blocks under way, for the caller to wait for: they count as acknowledged.
  [[nodiscard]] Blocks take_posted() { return std::exchange(posted_, {}); }

 private:
  struct PendingEnvelope {
    Envelope envelope;
    std::vector<std::byte> content;  // none yet for data
    [[nodiscard]] std::size_t size() const { return sizeof envelope + envelope.carried(); }
  };
  [[nodiscard]] bool may_post() const;
  [[nodiscard]] std::vector<std::byte> next_block(const Fill& fill);

  std::deque<PendingEnvelope> waiting_;
  Blocks posted_;                     // not acknowledged
  std::uint64_t unacknowledged_ = 0;  // blocks of the peer
};

}  // namespace dlaunch::internal
