// Ranks of one process that send each other messages through rings, as processes do. A double stands for the
// transport, of which these messages need only what it knows of the other ranks.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/transport.h"
#include "runtime/shared_memory/message_rings.h"
#include "tests/runtime/shared_collectives/shared_ranks.h"

namespace dlaunch::test {

using namespace internal;

class RingRanks;

class TransportDouble final : public Transport {
 public:
  TransportDouble(RingRanks& all, int rank) : all_(all), rank_(rank) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override;
  std::unique_ptr<Transfer> post_send(int, std::uint64_t, std::span<const std::byte>) override { return {}; }
  std::unique_ptr<Transfer> post_recv(int, std::uint64_t, std::span<std::byte>) override { return {}; }
  EagerChannel& eager_channel() override { throw DistError("none"); }
  std::unique_ptr<AnySourceReceive> post_recv_any(std::uint64_t, std::span<std::byte>) override { return {}; }
  void check() override;
  std::vector<int> departed() override;
  void abort(const std::string& reason) noexcept override { abort_for(-1, reason); }
  void abort_for(int peer, const std::string& reason) noexcept override;
  void shutdown(Deadline) noexcept override {}

 private:
  RingRanks& all_;
  const int rank_;
};

// Any thread may call.
class RingRanks {
 public:
  explicit RingRanks(int size) : segment_(new_segment(size)) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    for (int rank = 0; rank < size; ++rank) {
      transports_.push_back(std::make_unique<TransportDouble>(*this, rank));
      rings_.push_back(std::make_unique<MessageRings>(segment_, all, static_cast<std::size_t>(rank)));
    }
  }

  [[nodiscard]] int size() const { return static_cast<int>(rings_.size()); }
  [[nodiscard]] Transport& transport(int rank) { return *transports_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] MessageRings& rings(int rank) { return *rings_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] Segment& segment() { return *segment_; }
  [[nodiscard]] const std::shared_ptr<Segment>& shared_segment() const { return segment_; }

  void leave(int rank) {
    {
      const std::lock_guard lock(mutex_);
      departed_.push_back(rank);
    }
    interrupt();
  }
  // The first call counts.
  void end(int peer, const std::string& reason) {
    {
      const std::lock_guard lock(mutex_);
      if (has_ended_) return;
      has_ended_ = true;
      peer_ = peer;
      reason_ = reason;
    }
    interrupt();
  }
  void check() {
    const std::lock_guard lock(mutex_);
    if (has_ended_) throw DistNetworkError(reason_, {.peer = peer_});
  }
  [[nodiscard]] std::string reason() {
    const std::lock_guard lock(mutex_);
    return reason_;
  }
  [[nodiscard]] std::vector<int> departed(int than) {
    const std::lock_guard lock(mutex_);
    std::vector<int> others = departed_;
    std::erase(others, than);
    return others;
  }

 private:
  void interrupt() {
    for (const auto& rings : rings_) rings->interrupt();
  }

  const std::shared_ptr<Segment> segment_;
  std::vector<std::unique_ptr<TransportDouble>> transports_;
  std::vector<std::unique_ptr<MessageRings>> rings_;
  std::mutex mutex_;
  // protected by mutex_
  std::vector<int> departed_;
  bool has_ended_ = false;
  int peer_ = -1;
  std::string reason_;
};

inline int TransportDouble::size() const { return all_.size(); }
inline void TransportDouble::check() { all_.check(); }
inline std::vector<int> TransportDouble::departed() { return all_.departed(rank_); }
inline void TransportDouble::abort_for(int peer, const std::string& reason) noexcept {
  all_.end(peer, reason);
}

}  // namespace dlaunch::test
