// Those of the traps (gloo_traps_test.cpp) that need no network to be seen.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "dlaunch/collective_backend.h"
#include "runtime/errors.h"
#include "tests/runtime/thread_transport.h"

namespace dlaunch {
namespace {

using test::on_ranks;
using test::soon;

void expect_success(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) ADD_FAILURE() << message_of(error);
  }
}

// The deadlines until which anybody has waited.
class Deadlines {
 public:
  void add(Deadline deadline) {
    const std::lock_guard lock(mutex_);
    seen_.insert(deadline);
  }
  [[nodiscard]] std::set<Deadline> seen() const { return seen_; }  // REQUIRES: nobody adds any more

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

 private:
  const std::unique_ptr<Transfer> inner_;
  Deadlines& deadlines_;
};

class WatchedLine final : public Line {
 public:
  WatchedLine(Line& inner, Deadlines& deadlines) : inner_(inner), deadlines_(deadlines) {}

  std::byte* compose(int peer, Deadline deadline) override {
    deadlines_.add(deadline);
    return inner_.compose(peer, deadline);
  }
  void send(int peer, std::size_t length) override { inner_.send(peer, length); }
  const std::byte* receive(int peer, Deadline deadline) override {
    deadlines_.add(deadline);
    return inner_.receive(peer, deadline);
  }
  void release(int peer) noexcept override { inner_.release(peer); }

 private:
  Line& inner_;
  Deadlines& deadlines_;
};

// Forwards everything, and sees every wait.
class WatchedTransport final : public Transport {
 public:
  WatchedTransport(std::unique_ptr<Transport> inner, Deadlines& deadlines)
      : inner_(std::move(inner)), deadlines_(deadlines), line_(inner_->line(), deadlines) {}

  [[nodiscard]] int rank() const override { return inner_->rank(); }
  [[nodiscard]] int size() const override { return inner_->size(); }
  std::unique_ptr<Transfer> post_send(int peer, std::uint64_t slot,
                                      std::span<const std::byte> bytes) override {
    return std::make_unique<Watched>(inner_->post_send(peer, slot, bytes), deadlines_);
  }
  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    return std::make_unique<Watched>(inner_->post_recv(peer, slot, bytes), deadlines_);
  }
  std::unique_ptr<Inbox> post_recv_any(std::uint64_t slot, std::span<std::byte> bytes) override {
    return inner_->post_recv_any(slot, bytes);
  }
  Line& line() override { return line_; }
  void check() override { inner_->check(); }
  void abort(const std::string& reason) noexcept override { inner_->abort(reason); }
  void shutdown(Deadline deadline) noexcept override { inner_->shutdown(deadline); }

 private:
  const std::unique_ptr<Transport> inner_;
  Deadlines& deadlines_;
  WatchedLine line_;
};

// Gloo's timeout is for each wait: an operation of many could take many times as long.
TEST(Trap5, AllWaitsOfAnOperationEndAtItsDeadline) {
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
    EXPECT_EQ(deadlines.seen(), std::set<Deadline>{deadline});
  }
}

// A job that runs for long passes every limit that a number of its operations could have.
TEST(Trap20, NumbersOfOperationsMayWrapAround) {
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
}  // namespace dlaunch
