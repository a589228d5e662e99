// One rank's end of an eager channel: short messages that are sent at once and wait at the receiver.
//
// Each rank keeps room for EagerChannel::max_unreceived messages of each peer, and sends a credit when half
// of it is released. A sender without room waits.
#pragma once

#include <memory>
#include <vector>

#include "runtime/backends/gloo/tcp_transport.h"

namespace dlaunch::internal {

class TcpTransport::TcpEagerChannel final : public EagerChannel {
 public:
  static constexpr std::uint64_t released_at_once = EagerChannel::max_unreceived / 2;

  explicit TcpEagerChannel(TcpTransport& owner);

  std::byte* compose(int peer, Deadline deadline) override;
  void send(int peer, std::size_t length) override;
  const std::byte* receive(int peer, Deadline deadline) override;
  void release(int peer) noexcept override;

  // REQUIRES: the endpoint's mutex is held, and there is room for the message.
  static std::byte* next_cell(EagerReceiveBuffer& channel);
  // Frees what holds no message. A group whose ranks share memory has no other messages here but those by
  // which it was formed. REQUIRES: the endpoint's mutex is held, and no thread uses the channel.
  void free_unused();
  // An event has come that the thread may wait for.
  void wake() { wakeup_.wake(); }

 private:
  static constexpr std::size_t alignment = 64;
  static constexpr std::size_t cell_size =
      (EagerChannel::max_message_size + alignment - 1) / alignment * alignment;
  static EagerMemory map(std::size_t size);
  static std::byte* cell(const EagerReceiveBuffer& channel, std::uint64_t number) {
    return channel.cells.get() + number % EagerChannel::max_unreceived * cell_size;
  }

  TcpTransport& owner_;
  std::vector<EagerMemory> drafts_;  // by rank; null before the first draft
  Wakeup wakeup_;                    // a channel is used by one thread at a time
};

}  // namespace dlaunch::internal
