// One transport made of several, each over a network interface of its own, so that all of them work at once.
//
// The operations of a group run one after another. If they took the interfaces in turn, one interface would
// work at a time and the others wait; so what is long is cut, and each lane carries its part. Short messages
// cost the same on any lane: they take the one that their slot gives, which changes from operation to
// operation. Sender and receiver know slot and length, so nothing has to be said about either.
//
// The parts are equal: of interfaces that differ in speed the slowest sets the pace.
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

namespace dlaunch {

class SpreadTransport final : public Transport {
 public:
  // Longer messages are cut. More than the block of point_to_point/letter.h, into which messages of unknown
  // length are received: what is cut needs memory of exactly its length.
  static constexpr std::size_t whole_limit = std::size_t{64} * 1024;

  struct Lane {
    std::string interface;  // for messages
    std::unique_ptr<Transport> transport;
  };

  // REQUIRES: at least one lane; the same rank in all; on every rank as many, in the same order.
  explicit SpreadTransport(std::vector<Lane> lanes);
  ~SpreadTransport() override;
  SpreadTransport(const SpreadTransport&) = delete;
  SpreadTransport& operator=(const SpreadTransport&) = delete;

  [[nodiscard]] int rank() const override { return lanes_.front().transport->rank(); }
  [[nodiscard]] int size() const override { return lanes_.front().transport->size(); }
  // The memory of a receive that is longer than whole_limit is exactly as long as the message.
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override;
  std::unique_ptr<Inbox> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override;
  Line& line() override { return *line_; }
  void on_first_message(std::uint64_t slot, std::function<void()> come) override {
    lane_of(slot).transport->on_first_message(slot, std::move(come));
  }
  void check() override;
  std::vector<int> departed() override;
  void abort(const std::string& reason) noexcept override;
  void abort_for(int peer, const std::string& reason) noexcept override;
  void shutdown(Deadline deadline) noexcept override;
  void enter(std::uint64_t number) noexcept override { lanes_.front().transport->enter(number); }
  RollCall call_roll(std::uint64_t number) override { return lanes_.front().transport->call_roll(number); }

 private:
  class Message;
  class Turns;

  [[nodiscard]] const Lane& lane_of(std::uint64_t slot) const;
  int lost_peer() noexcept;  // as one of the lanes knows; -1: none does
  template <class Bytes, class Post>
  std::unique_ptr<Transfer> post(std::uint64_t slot, Bytes bytes, const Post& post_part) const;

  const std::vector<Lane> lanes_;
  std::unique_ptr<Line> line_;
};

}  // namespace dlaunch
