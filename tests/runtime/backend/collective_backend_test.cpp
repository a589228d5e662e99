// Operations over any transport: their deadlines, their numbers, and who is to blame when they fail.

#include "dlaunch/collective_backend.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/deadline.h"
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

// The others may wait for it in an earlier operation: the error names the one that is furthest behind.
TEST(CollectiveBackendErrors, ALateOperationNamesTheRankThatLagsMost) {
  std::latch over(2);
  std::latch entered(1);  // rank 1 is in the operation
  const auto errors = on_ranks(3, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    CollectiveBackend backend(std::move(transport));
    backend.barrier({1, soon(), false});
    if (rank == 2) return over.wait();
    if (rank == 0) entered.wait();
    std::vector<int> values(10);
    const Deadline deadline = rank == 0 ? deadline_after(std::chrono::milliseconds(50)) : soon();
    const Work work = backend.all_reduce(Tensor::of(values), {}, {2, deadline, true});
    if (rank == 1) entered.count_down();
    work.get_future().wait();
    over.count_down();
    work.wait();
  });
  for (const int rank : {0, 1}) {
    const std::exception_ptr error = errors[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error);
    EXPECT_THROW(std::rethrow_exception(error), DistNetworkError);
    EXPECT_EQ(peer_of(error), 2) << message_of(error);
    EXPECT_NE(message_of(error).find("not all ranks came before the deadline; missing: rank 2 of 3"),
              std::string::npos)
        << message_of(error);
  }
}

// The rank that left is to blame, on all ranks, and not the one that noticed.
TEST(CollectiveBackendErrors, ARankThatHasLeftIsNamedByAll) {
  const auto errors = on_ranks(3, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    CollectiveBackend backend(std::move(transport));
    if (rank == 2) return backend.shutdown();
    std::vector<int> values(10);
    backend.all_reduce(Tensor::of(values), {}, {1, soon(), false});
  });
  for (const int rank : {0, 1}) {
    const std::exception_ptr error = errors[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(error);
    EXPECT_EQ(peer_of(error), 2) << message_of(error);
    EXPECT_EQ(reason_of(error), left_the_group);
  }
}

// A backend that is destroyed without shutdown() does not leave the others waiting.
TEST(CollectiveBackendErrors, ADestroyedBackendEndsTheWaitsOfTheOthers) {
  const auto errors = on_ranks(2, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    CollectiveBackend backend(std::move(transport));
    if (rank == 0) backend.barrier({1, soon(), false});
  });
  ASSERT_TRUE(errors[0]);
  EXPECT_NE(message_of(errors[0]).find("the group was destroyed"), std::string::npos)
      << message_of(errors[0]);
  EXPECT_FALSE(errors[1]);
}

TEST(CollectiveBackend, AsynchronousOperationsAreCompleteBeforeASynchronousOne) {
  expect_success(on_ranks(3, [&](std::unique_ptr<Transport> transport) {
    CollectiveBackend backend(std::move(transport));
    std::vector<std::vector<int>> values(6, std::vector<int>(3, 1));
    values[4].resize(100'000, 1);  // not a short one
    std::vector<Work> works;
    std::uint64_t number = 0;
    for (auto& one : values)
      works.push_back(backend.all_reduce(Tensor::of(one), {}, {++number, soon(), true}));
    backend.barrier({++number, soon(), false});
    for (const Work& work : works) EXPECT_TRUE(work.is_success());
    for (const auto& one : values) EXPECT_EQ(one, std::vector<int>(one.size(), 3));
    backend.shutdown();
  }));
}

TEST(CollectiveBackend, AnAbortEndsOperationsThatOthersDoNotJoin) {
  std::latch gone(1);
  expect_success(on_ranks(2, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    CollectiveBackend backend(std::move(transport));
    if (rank == 1) return gone.wait();
    std::vector<int> values(3);
    const Work work = backend.all_reduce(Tensor::of(values), {}, {1, soon(), true});
    backend.abort("enough");
    backend.shutdown();
    EXPECT_TRUE(work.is_completed());
    EXPECT_EQ(reason_of(work.exception()), "enough");
    gone.count_down();
  }));
}

}  // namespace
}  // namespace dlaunch::internal
