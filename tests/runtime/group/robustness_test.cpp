// Robustness of operations against what needs no network to be seen (see gloo_robustness_test.cpp).

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "dlaunch/collective_backend.h"
#include "runtime/base/errors.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_ranks;
using test::soon;

// The deadlines until which anybody has waited.
class Deadlines {
 public:
  void add(Deadline deadline) {
    const std::lock_guard lock(mutex_);
    seen_.insert(deadline);
  }
  [[nodiscard]] std::set<Deadline> seen() const { return seen_; }  // REQUIRES: no thread adds any more

 private:
  std::mutex mutex_;
  std::set<Deadline> seen_;
};

class Watched final : public Transfer {
 public:
  Watched(std::unique_ptr<Transfer> inner, Deadlines& deadlines)
      : inner_(std::move(inner)), deadlines_(deadlines) {}
  void wait(Deadline deadline) override {
    deadlines_.add(deadline);
    inner_->wait(deadline);
  }
  bool wait_until(Deadline deadline) override {
    deadlines_.add(deadline);
    return inner_->wait_until(deadline);
  }

 private:
  const std::unique_ptr<Transfer> inner_;
  Deadlines& deadlines_;
};

class WatchedChannel final : public test::ForwardingChannel {
 public:
  WatchedChannel(EagerChannel& inner, Deadlines& deadlines)
      : ForwardingChannel(inner), deadlines_(deadlines) {}

  std::byte* compose(int peer, Deadline deadline) override {
    deadlines_.add(deadline);
    return ForwardingChannel::compose(peer, deadline);
  }
  const std::byte* receive(int peer, Deadline deadline) override {
    deadlines_.add(deadline);
    return ForwardingChannel::receive(peer, deadline);
  }

 private:
  Deadlines& deadlines_;
};

// Sees every wait.
class WatchedTransport final : public test::ForwardingTransport {
 public:
  WatchedTransport(std::unique_ptr<Transport> inner, Deadlines& deadlines)
      : ForwardingTransport(std::move(inner)),
        deadlines_(deadlines),
        eager_channel_(ForwardingTransport::eager_channel(), deadlines) {}

  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    return std::make_unique<Watched>(ForwardingTransport::post_send(peer, slot, bytes), deadlines_);
  }
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return std::make_unique<Watched>(ForwardingTransport::post_recv(peer, slot, bytes), deadlines_);
  }
  EagerChannel& eager_channel() override { return eager_channel_; }

 private:
  Deadlines& deadlines_;
  WatchedChannel eager_channel_;
};

// Gloo's timeout is for each wait: an operation of many could take many times as long.
TEST(Timeouts, AllWaitsOfAnOperationEndAtItsDeadline) {
  for (const std::size_t count : {1U, 1000000U}) {
    Deadlines deadlines;
    const Deadline deadline = soon();
    expect_success(on_ranks(4, [&](std::unique_ptr<Transport> transport) {
      CollectiveBackend backend(std::make_unique<WatchedTransport>(std::move(transport), deadlines));
      std::vector<float> values(count, 1);
      backend.all_reduce(Tensor::of(values), {}, {1, deadline, false});
      EXPECT_EQ(values, std::vector<float>(count, 4));
      backend.shutdown();
    }));
    ASSERT_FALSE(deadlines.seen().empty());
    EXPECT_LE(*deadlines.seen().rbegin(), deadline);
  }
}

// A job that runs for long passes every limit that a number of its operations could have.
TEST(SequenceNumbers, MayWrapAround) {
  for (const int bits : {16, 22, 31, 32, 40, 60}) {
    expect_success(on_ranks(3, [&](std::unique_ptr<Transport> transport) {
      CollectiveBackend backend(std::move(transport));
      for (std::uint64_t i = 0; i < 8; ++i) {
        std::vector<float> values(i % 2 == 0 ? 1 : 100000, static_cast<float>(i));
        const std::uint64_t number = (std::uint64_t{1} << bits) - 4 + i;
        backend.all_reduce(Tensor::of(values), {}, {number, soon(), false});
        EXPECT_EQ(values, std::vector<float>(values.size(), static_cast<float>(3 * i)));
      }
      backend.shutdown();
    }));
  }
}

}  // namespace
}  // namespace dlaunch::internal
