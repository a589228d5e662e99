// One transport made of several, each on its own network interface, so that all interfaces work at once.
//
// The operations of a group run one after another. If they used the interfaces in turn, only one interface
// would work at a time. So a long message is cut, and each rail carries a part. A short message costs the
// same on any rail: its slot selects the rail, and the slot changes from operation to operation. Sender and
// receiver know slot and length, so they need not exchange anything about either.
//
// The parts are equal: if interfaces differ in speed, the slowest sets the pace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/transport.h"

namespace dlaunch::internal {

class MultiRailTransport final : public Transport {
 public:
  // Longer messages are cut. The limit exceeds the block of point_to_point/envelope.h, into which messages of
  // unknown length are received: a cut message needs memory of exactly its length.
  static constexpr std::size_t whole_limit = std::size_t{64} * 1024;

  struct Rail {
    std::string interface;  // for error messages
    std::unique_ptr<Transport> transport;
  };

  // REQUIRES: at least one rail; the same rank in all; every rank has as many, in the same order.
  explicit MultiRailTransport(std::vector<Rail> rails);
  ~MultiRailTransport() override;
  MultiRailTransport(const MultiRailTransport&) = delete;
  MultiRailTransport& operator=(const MultiRailTransport&) = delete;

  [[nodiscard]] int rank() const override { return rails_.front().transport->rank(); }
  [[nodiscard]] int size() const override { return rails_.front().transport->size(); }
  // The memory of a receive that is longer than whole_limit is exactly as long as the message.
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override;
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override;
  EagerChannel& eager_channel() override { return *eager_channel_; }
  void on_unexpected_message(std::uint64_t slot, std::function<void()> come) override {
    rail_of(slot).transport->on_unexpected_message(slot, std::move(come));
  }
  GroupMemory* shared_memory() override { return rails_.front().transport->shared_memory(); }
  const HostMap* hosts() override { return rails_.front().transport->hosts(); }
  MessageRings* message_rings() override { return rails_.front().transport->message_rings(); }
  void check() override;
  std::vector<int> departed() override;
  void abort(const std::string& reason) noexcept override;
  void abort_for(int peer, const std::string& reason) noexcept override;
  void shutdown(Deadline deadline) noexcept override;
  void enter(std::uint64_t number) noexcept override { rails_.front().transport->enter(number); }
  ProgressReport query_progress(std::uint64_t number) override {
    return rails_.front().transport->query_progress(number);
  }

 private:
  class Message;
  class RoundRobinChannel;

  [[nodiscard]] const Rail& rail_of(std::uint64_t slot) const;
  int lost_peer() noexcept;  // as one of the rails reports; -1: none
  template <class Bytes, class Post>
  std::unique_ptr<Transfer> post(std::uint64_t slot, Bytes bytes, const Post& post_part) const;

  const std::vector<Rail> rails_;
  std::unique_ptr<EagerChannel> eager_channel_;
};

}  // namespace dlaunch::internal
