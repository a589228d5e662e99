// Tasks run at the same time up to a number, and never on all threads.

#include "runtime/rpc/polling_threads.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <atomic>

#include "tests/runtime/rpc/agents.h"

namespace dlaunch::test {
namespace {

TEST(PollingThreads, RunTasksAtTheSameTime) {
  const auto threads = std::make_shared<PollingThreads>(3);
  threads->start([](std::uint64_t, std::uint32_t) {});
  Gate open;
  std::vector<Gate> begun(3);
  std::atomic<int> running = 0;
  std::atomic<int> most = 0;
  Gate last;
  std::vector<PollingThreads::Task> tasks;
  for (std::size_t i = 0; i < 6; ++i) {
    tasks.emplace_back([&, i] {
      most = std::max(most.load(), ++running);
      if (i < 3) {
        begun[i].open();
        open.wait();
      }
      --running;
      if (i == 5) last.open();
    });
  }
  threads->post(std::move(tasks));
  for (Gate& gate : begun) EXPECT_TRUE(gate.wait());
  EXPECT_EQ(running, 3);  // the others have no thread
  open.open();
  EXPECT_TRUE(last.wait());
  EXPECT_LE(most, 3);
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
}

TEST(PollingThreads, HandleEventsWhileAllTasksWait) {
  const auto threads = std::make_shared<PollingThreads>(1);
  Gate seen;
  Gate begun;
  Gate open;
  const Descriptor bell([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); });
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = 7;
  epoll_ctl(threads->poll(), EPOLL_CTL_ADD, bell.get(), &event);
  threads->start([&](std::uint64_t token, std::uint32_t) {
    if (token == 7) seen.open();
  });
  threads->post([&] {
    begun.open();
    open.wait();
  });
  EXPECT_TRUE(begun.wait());
  eventfd_write(bell.get(), 1);
  EXPECT_TRUE(seen.wait());
  open.open();
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
}

// A thread that handles events runs short tasks itself; those behind one that is not short get another thread
// when relieve() finds that it does not end, and all do when several do not.
TEST(PollingThreads, RelieveThoseThatAreStuck) {
  const auto threads = std::make_shared<PollingThreads>(6);
  Gate open;
  std::vector<Gate> begun(6);
  std::atomic<int> ended = 0;
  Gate last;
  const auto on_event = [&](std::uint64_t token, std::uint32_t) {
    if (token != 7) return;
    std::vector<PollingThreads::Task> tasks;
    for (Gate& gate : begun) {
      tasks.emplace_back([&] {
        gate.open();
        open.wait();
        if (++ended == 6) last.open();
      });
    }
    threads->post(std::move(tasks), true);
  };
  threads->start(on_event);
  const Descriptor bell([] { return eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC); });
  threads->watch(bell.get(), 7);
  EXPECT_TRUE(begun[0].wait());
  for (std::size_t stuck = 1; stuck < 5; ++stuck) {
    bool again = true;
    for (int i = 0; i < 2; ++i) again = threads->relieve(true);
    EXPECT_TRUE(again);
    EXPECT_TRUE(begun[stuck].wait());
  }
  EXPECT_TRUE(begun[5].wait());  // all get threads
  EXPECT_FALSE(threads->relieve(true));
  open.open();
  EXPECT_TRUE(last.wait());
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
}

TEST(PollingThreads, StopDropsShortTasksBehindOneThatRuns) {
  const auto threads = std::make_shared<PollingThreads>(2);
  Gate begun;
  Gate open;
  std::atomic<bool> second = false;
  const auto on_event = [&](std::uint64_t token, std::uint32_t) {
    if (token != 7) return;
    std::vector<PollingThreads::Task> tasks;
    tasks.emplace_back([&] {
      begun.open();
      open.wait();
    });
    tasks.emplace_back([&] { second = true; });
    threads->post(std::move(tasks), true);
  };
  threads->start(on_event);
  const Descriptor bell([] { return eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC); });
  threads->watch(bell.get(), 7);
  EXPECT_TRUE(begun.wait());
  EXPECT_FALSE(threads->stop(deadline_after(std::chrono::milliseconds(1))));
  open.open();
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
  EXPECT_FALSE(second);
}

TEST(PollingThreads, StopDropsWhatHasNotBegun) {
  const auto threads = std::make_shared<PollingThreads>(1);
  threads->start([](std::uint64_t, std::uint32_t) {});
  Gate begun;
  Gate open;
  std::atomic<bool> second = false;
  EXPECT_FALSE(PollingThreads::is_one_of_them());
  std::atomic<bool> is_one = false;
  threads->post([&] {
    is_one = PollingThreads::is_one_of_them();
    begun.open();
    open.wait();
  });
  EXPECT_TRUE(begun.wait());
  threads->post([&] { second = true; });
  EXPECT_FALSE(threads->stop(deadline_after(std::chrono::milliseconds(1))));
  open.open();
  EXPECT_TRUE(threads->stop(deadline_after(rpc_limit)));
  threads->post([&] { second = true; });
  EXPECT_TRUE(is_one);
  EXPECT_FALSE(second);
}

}  // namespace
}  // namespace dlaunch::test
