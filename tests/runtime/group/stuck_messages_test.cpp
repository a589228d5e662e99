// A message whose data do not arrive holds up neither other ranks nor the group's end.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/point_to_point/envelope.h"
#include "tests/runtime/collectives/forwarding_transport.h"
#include "tests/runtime/group/thread_groups.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::expect_success;

// Data of messages from rank 1 do not arrive until the test releases them.
class StuckTransport final : public test::ForwardingTransport {
 public:
  using ForwardingTransport::ForwardingTransport;

  std::unique_ptr<Transfer> post_recv(int peer, std::uint64_t slot, std::span<std::byte> bytes) override {
    auto transfer = ForwardingTransport::post_recv(peer, slot, bytes);
    if (peer != 1 || (slot & data_slot(0)) != data_slot(0)) return transfer;
    return std::make_unique<Stuck>(std::move(transfer), *this);
  }
  void abort(const std::string& reason) noexcept override {
    ForwardingTransport::abort(reason);
    come_through();
  }

  void come_through() {
    std::call_once(freed_, [this] { free_.set_value(); });
  }
  void await_waiter() { waited_for_.get_future().wait(); }

 private:
  class Stuck final : public Transfer {
   public:
    Stuck(std::unique_ptr<Transfer> inner, StuckTransport& owner) : inner_(std::move(inner)), owner_(owner) {}
    void wait(Deadline deadline) override {
      come_free(deadline);
      inner_->wait(deadline);
    }
    bool wait_until(Deadline deadline) override {
      come_free(deadline);
      return inner_->wait_until(deadline);
    }

   private:
    void come_free(Deadline deadline) {
      std::call_once(owner_.awaited_, [this] { owner_.waited_for_.set_value(); });
      owner_.is_free_.wait_until(deadline);
      owner_.check();
    }

    const std::unique_ptr<Transfer> inner_;
    StuckTransport& owner_;
  };

  std::once_flag freed_;
  std::promise<void> free_;
  const std::shared_future<void> is_free_ = free_.get_future().share();
  std::once_flag awaited_;
  std::promise<void> waited_for_;
};

// `body` gets rank 0's transport too.
void with_stuck_rank_0(int size, const std::function<void(const ProcessGroup&, StuckTransport*)>& body) {
  expect_success(test::on_ranks(size, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    StuckTransport* stuck = nullptr;
    if (rank == 0) {
      auto wrapped = std::make_unique<StuckTransport>(std::move(transport));
      stuck = wrapped.get();
      transport = std::move(wrapped);
    }
    const auto group = test::make_impl(rank, size, std::make_shared<CollectiveBackend>(std::move(transport)));
    body(GroupImpl::handle(group), stuck);
    group->destroy();
  }));
}

TEST(PointToPoint, AStuckMessageHoldsUpNoOtherRanks) {
  with_stuck_rank_0(3, [](const ProcessGroup& group, StuckTransport* stuck) {
    std::vector<float> first(100000);
    std::vector<float> second(100000);
    if (group.rank() == 1) group.send(Tensor::of(first), 0);
    if (group.rank() == 2) {
      group.recv(Tensor::of(first), 0);
      group.send(Tensor::of(second), 0);
    }
    if (group.rank() > 0) return;
    const Work from_1 = group.irecv(Tensor::of(first), 1);
    stuck->await_waiter();
    group.send(Tensor::of(second), 2);
    group.recv(Tensor::of(second), 2);
    EXPECT_FALSE(from_1.is_completed());
    stuck->come_through();
    from_1.wait();
  });
}

TEST(PointToPoint, AMessageBehindAStuckOneHasItsDeadline) {
  with_stuck_rank_0(2, [](const ProcessGroup& group, StuckTransport* stuck) {
    std::vector<float> first(100000);
    std::vector<float> second(100000);
    if (group.rank() == 1) {
      // The error of rank 0 may reach this one at any time.
      error_of([&] {
        const Work one = group.isend(Tensor::of(first), 0);
        const Work other = group.isend(Tensor::of(second), 0, {.tag = 1, .timeout = {}});
        one.wait();
        other.wait();
      });
      return;
    }
    const Work waits = group.irecv(Tensor::of(first), 1);
    stuck->await_waiter();
    const Work late =
        group.irecv(Tensor::of(second), 1, {.tag = 1, .timeout = std::chrono::milliseconds(50)});
    EXPECT_NE(error_of([&] { late.wait(); }).find("before the deadline"), std::string::npos);
    EXPECT_FALSE(waits.is_success());
    stuck->come_through();
    error_of([&] { waits.wait(); });
  });
}

TEST(PointToPoint, DestroyingWaitsForNoStuckMessage) {
  Work received;
  std::vector<float> into(100000);
  with_stuck_rank_0(2, [&](const ProcessGroup& group, StuckTransport* stuck) {
    const std::vector<float> values(100000);
    if (group.rank() == 1) return group.send(Tensor::of(values), 0);
    received = group.irecv(Tensor::of(into), 1);
    stuck->await_waiter();
  });
  ASSERT_TRUE(received.is_completed());
  EXPECT_NE(error_of([&] { received.wait(); }).find("the group was destroyed before"), std::string::npos);
}

TEST(PointToPoint, DestroyingWaitsForNoOperationThatOthersDoNotJoin) {
  Work joined_by_nobody;
  std::vector<float> values(1000000);
  std::latch destroyed(1);
  expect_success(test::on_ranks(2, [&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    const auto impl = test::make_impl(rank, 2, std::make_shared<CollectiveBackend>(std::move(transport)));
    if (rank == 0) {
      OperationOptions options;
      options.async_op = true;
      joined_by_nobody = GroupImpl::handle(impl).all_reduce(Tensor::of(values), ReduceOp::sum, options);
    } else {
      destroyed.wait();
    }
    impl->destroy();
    if (rank == 0) destroyed.count_down();
  }));
  ASSERT_TRUE(joined_by_nobody.is_completed());
  EXPECT_NE(error_of([&] { joined_by_nobody.wait(); }).find("the group was destroyed before"),
            std::string::npos);
}

}  // namespace
}  // namespace dlaunch::internal
