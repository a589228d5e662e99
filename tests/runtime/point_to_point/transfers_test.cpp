// Messages under way: those of one peer do not delay another's.

#include "runtime/point_to_point/transfers.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/collectives/thread_transport.h"
#include "tests/runtime/thread_count.h"

namespace dlaunch::internal {
namespace {

using test::soon;

// Messages that complete when the test says so.
class Gate {
 public:
  void open() { opened_.set_value(); }
  // Returns when a thread waits for its first message.
  void await_waiter() { waited_.get_future().wait(); }

  class Gated final : public Transfer {
   public:
    explicit Gated(Gate& gate) : opened_(gate.is_open_), waited_(std::exchange(gate.first_, nullptr)) {}
    void wait(Deadline deadline) override {
      if (waited_) waited_->set_value();
      if (!wait_until(deadline)) throw DistNetworkError("too late");
    }
    bool wait_until(Deadline deadline) override {
      return opened_.wait_until(deadline) == std::future_status::ready;
    }

   private:
    const std::shared_future<void> opened_;
    std::promise<void>* const waited_;  // null except for the first
  };

 private:
  std::promise<void> waited_;
  std::promise<void>* first_ = &waited_;
  std::promise<void> opened_;
  const std::shared_future<void> is_open_ = opened_.get_future().share();
};

// How a message has ended: "" means success.
class Ending {
 public:
  [[nodiscard]] auto teller() const {
    return [end = end_](const std::exception_ptr& error) { end->set_value(error ? message_of(error) : ""); };
  }
  [[nodiscard]] std::string get() {
    if (ended_.wait_until(soon()) != std::future_status::ready) return "not at all";
    return ended_.get();
  }
  [[nodiscard]] bool is_there() const {
    return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  const std::shared_ptr<std::promise<std::string>> end_ = std::make_shared<std::promise<std::string>>();
  std::future<std::string> ended_ = end_->get_future();
};

bool add(Transfers& transfers, Transfers::Route route, Gate& gate, const Ending& ending,
         Deadline deadline = soon()) {
  return transfers.add({route, deadline, ending.teller(), std::make_unique<Gate::Gated>(gate)});
}

constexpr Transfers::Route from_1{1, false};

TEST(Transfers, OfOtherWaysAreNotHeldUp) {
  Transfers transfers;
  Gate stuck;
  Gate open;
  open.open();
  Ending first;
  EXPECT_FALSE(add(transfers, from_1, stuck, first));
  for (const Transfers::Route route : {Transfers::Route{1, true}, {2, false}, {2, true}}) {
    Ending other;
    EXPECT_FALSE(add(transfers, route, open, other));
    EXPECT_EQ(other.get(), "");
  }
  EXPECT_FALSE(first.is_there());
  stuck.open();
  EXPECT_EQ(first.get(), "");
}

TEST(Transfers, OfOneWayKeepTheirOrder) {
  Transfers transfers;
  Gate stuck;
  Gate open;
  open.open();
  std::vector<int> order;
  for (int i = 0; i < 10; ++i) {
    const bool behind =
        transfers.add({from_1, soon(), [&order, i](const std::exception_ptr&) { order.push_back(i); },
                       std::make_unique<Gate::Gated>(i == 0 ? stuck : open)});
    EXPECT_EQ(behind, i > 0);
  }
  stuck.open();
  EXPECT_TRUE(transfers.drain(soon()));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST(Transfers, BehindAnotherEndAtTheirDeadlineToo) {
  Transfers transfers;
  Gate stuck;
  Ending first;
  Ending in_time;
  Ending late;
  const Deadline later = soon();
  const Deadline past = deadline_after(std::chrono::seconds(0));
  add(transfers, from_1, stuck, first);
  stuck.await_waiter();
  EXPECT_EQ(transfers.next_deadline(), Deadline::max());
  EXPECT_TRUE(add(transfers, from_1, stuck, in_time, later));
  EXPECT_EQ(transfers.next_deadline(), later);
  EXPECT_TRUE(add(transfers, from_1, stuck, late, past));
  EXPECT_EQ(transfers.next_deadline(), past);
  transfers.expire();
  EXPECT_TRUE(late.is_there());
  EXPECT_NE(late.get().find("it did not send a message before the deadline"), std::string::npos);
  EXPECT_FALSE(first.is_there() || in_time.is_there());
  EXPECT_EQ(transfers.next_deadline(), later);
  stuck.open();
  EXPECT_EQ(first.get(), "");
  EXPECT_EQ(in_time.get(), "");
}

TEST(Transfers, AreDrainedUntilTheDeadline) {
  Transfers transfers;
  EXPECT_TRUE(transfers.drain(deadline_after(std::chrono::seconds(0))));
  Gate stuck;
  Ending ending;
  add(transfers, from_1, stuck, ending);
  EXPECT_FALSE(transfers.drain(deadline_after(std::chrono::seconds(0))));
  stuck.open();
  EXPECT_TRUE(transfers.drain(soon()));
  EXPECT_TRUE(ending.is_there());
}

TEST(Transfers, ReportWhyTheyFail) {
  Transfers transfers;
  Gate stuck;
  Ending ending;
  add(transfers, from_1, stuck, ending, deadline_after(std::chrono::seconds(0)));
  EXPECT_NE(ending.get().find("too late"), std::string::npos);
}

// The callback's receiver may reuse the memory at once.
TEST(Transfers, AreDestroyedBeforeTheirCallback) {
  class Watched final : public Transfer {
   public:
    explicit Watched(bool& here) : here_(here) { here_ = true; }
    ~Watched() override { here_ = false; }
    void wait(Deadline /*deadline*/) override { throw DistNetworkError("lost"); }
    bool wait_until(Deadline /*deadline*/) override { throw DistNetworkError("lost"); }

   private:
    bool& here_;
  };
  Transfers transfers;
  bool here = false;
  bool was_here = true;
  transfers.add(
      {from_1, soon(), [&](const std::exception_ptr&) { was_here = here; }, std::make_unique<Watched>(here)});
  EXPECT_TRUE(transfers.drain(soon()));
  EXPECT_FALSE(was_here);
}

TEST(Transfers, HaveNoThreadsWhileTheyAreIdle) {
  const std::size_t before = test::thread_count();
  Transfers transfers;
  for (int turn = 0; turn < 2; ++turn) {
    Gate stuck;
    Gate open;
    open.open();
    Ending first;
    EXPECT_FALSE(add(transfers, from_1, stuck, first));
    Ending second;
    EXPECT_FALSE(add(transfers, {1, true}, open, second));
    EXPECT_EQ(second.get(), "");
    EXPECT_GT(test::thread_count(), before);
    stuck.open();
    EXPECT_EQ(first.get(), "");
    EXPECT_TRUE(test::threads_end(before));
  }
}

}  // namespace
}  // namespace dlaunch::internal
