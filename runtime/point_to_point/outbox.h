// Envelopes to one peer, from when they are written until they have come.
//
// A block costs a message of the transport: a trip of the receiver's request and one of the block, and a turn
// of two threads. So only `window` blocks are on their way at a time. An envelope that finds room goes at
// once; the others wait, and the next block takes as many of them as fit. The peer acknowledges blocks with
// the first envelope of any block that it sends, and after half a window with one of its own, which needs no
// room: so two ranks that both have no room left do not wait for each other.
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

namespace dlaunch {

// Not thread-safe.
class Outbox {
 public:
  static constexpr std::size_t window = 8;

  // The envelope, and a copy of its content; of "data" the content is asked for when they go.
  void add(const Envelope& envelope, std::span<const std::byte> content = {});
  // Writes the content of "data". False: they are not to go any more.
  using Fill = std::function<bool(const Envelope& envelope, std::byte* content)>;

  using Blocks = std::deque<std::unique_ptr<Transfer>>;
  // One of the peer's blocks has come, which acknowledges so many of these: they have arrived, and to wait
  // for them takes no time.
  Blocks receive(std::uint64_t acknowledged);

  // Sends what may go. Throws as Transport::post_send does; then nothing more goes.
  void post(Transport& transport, int peer, const Fill& fill);

  // Whether envelopes wait for room.
  [[nodiscard]] bool has_waiting() const { return !waiting_.empty(); }
  void drop_waiting() { waiting_.clear(); }
  // The blocks on their way, which the caller waits for: they count as acknowledged.
  [[nodiscard]] Blocks take_posted() { return std::exchange(posted_, {}); }

 private:
  struct PendingEnvelope {
    Envelope envelope;
    std::vector<std::byte> content;  // of data none yet
    [[nodiscard]] std::size_t size() const { return sizeof envelope + envelope.carried(); }
  };
  [[nodiscard]] bool may_post() const;
  [[nodiscard]] std::vector<std::byte> next_block(const Fill& fill);

  std::deque<PendingEnvelope> waiting_;
  Blocks posted_;                     // not acknowledged
  std::uint64_t unacknowledged_ = 0;  // of the peer's blocks
};

}  // namespace dlaunch
