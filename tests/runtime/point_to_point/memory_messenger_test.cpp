// Messages through rings while threads of the ranks wait, sleep, and come and go.

#include "runtime/point_to_point/memory_messenger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/point_to_point/ring_ranks.h"
#include "tests/runtime/thread_count.h"

namespace dlaunch::internal {
namespace {

using test::expect_success;
using test::on_threads;
using test::RingRanks;
using test::soon;
using test::thread_count;
using test::threads_end;
using Values = std::vector<std::int32_t>;

constexpr std::size_t counts[] = {1, 1000, 100'000};  // the last one is longer than a record

// `body` runs on a thread for each rank.
void run(RingRanks& all, const std::function<void(int rank, MemoryMessenger& messenger)>& body) {
  std::barrier together(all.size());
  expect_success(on_threads(all.size(), [&](int rank) {
    MemoryMessenger messenger(all.transport(rank), all.rings(rank));
    try {
      body(rank, messenger);
    } catch (...) {
      all.end(rank, "the test has failed");
      together.arrive_and_wait();
      throw;
    }
    together.arrive_and_wait();
    messenger.drain(soon());
  }));
}

void send(MemoryMessenger& messenger, const Values& values, int to, Tag tag = 0) {
  messenger.send(Tensor::of(values), to, tag, soon(), false).wait();
}
void receive(MemoryMessenger& messenger, Values& values, int from, Tag tag = 0) {
  const Work work = messenger.recv(Tensor::of(values), from, tag, soon(), false);
  work.wait();
  EXPECT_EQ(work.source_rank(), from);
}

TEST(MemoryMessenger, AnswersGoBackAndForth) {
  RingRanks all(2);
  run(all, [](int rank, MemoryMessenger& messenger) {
    for (int round = 0; round < 300; ++round) {
      const std::size_t count = counts[static_cast<std::size_t>(round) % std::size(counts)];
      Values values(count, round);
      if (rank == 0) send(messenger, values, 1);
      values.assign(count, -1);
      receive(messenger, values, 1 - rank);
      EXPECT_EQ(values, Values(count, round));
      if (rank == 1) send(messenger, values, 0);
    }
  });
}

TEST(MemoryMessenger, AllToAllWithoutWaitingNeedsNoCallOfTheOthers) {
  constexpr int size = 4;
  RingRanks all(size);
  run(all, [](int rank, MemoryMessenger& messenger) {
    std::vector<Values> out;
    std::vector<Values> in;
    for (const std::size_t count : counts) {
      out.emplace_back(count, rank);
      for (int peer = 0; peer < size; ++peer) in.emplace_back(count, -1);
    }
    std::vector<Work> works;
    for (std::size_t i = 0; i < out.size(); ++i) {
      for (int peer = 0; peer < size; ++peer) {
        works.push_back(messenger.send(Tensor::of(out[i]), peer, i, soon(), true));
        works.push_back(
            messenger.recv(Tensor::of(in[i * size + static_cast<std::size_t>(peer)]), peer, i, soon(), true));
      }
    }
    for (const Work& work : works) work.wait();
    for (std::size_t i = 0; i < in.size(); ++i)
      EXPECT_EQ(in[i], Values(counts[i / size], static_cast<int>(i % size)));
  });
}

// The thread that handles a message need not be the one that waits for it.
TEST(MemoryMessenger, ThreadsOfARankReceiveEachTheirOwn) {
  constexpr int threads = 3;
  constexpr int rounds = 200;
  RingRanks all(2);
  run(all, [](int rank, MemoryMessenger& messenger) {
    expect_success(on_threads(threads, [&](int thread) {
      const Tag tag = static_cast<Tag>(thread);
      for (int round = 0; round < rounds; ++round) {
        Values values(counts[static_cast<std::size_t>(round) % std::size(counts)], round * threads + thread);
        const Values wanted = values;
        if (rank == 0) send(messenger, values, 1, tag);
        values.assign(values.size(), -1);
        receive(messenger, values, 1 - rank, tag);
        EXPECT_EQ(values, wanted);
        if (rank == 1) send(messenger, values, 0, tag);
      }
    }));
  });
}

TEST(MemoryMessenger, AnOperationWithoutACallThatWaitsIsHandled) {
  RingRanks all(2);
  run(all, [](int rank, MemoryMessenger& messenger) {
    Values values(counts[2], rank);
    std::atomic<bool> has_come = false;
    const Work work = rank == 0 ? messenger.send(Tensor::of(values), 1, 0, soon(), true)
                                : messenger.recv(Tensor::of(values), 0, 0, soon(), true);
    work.then([&](const Work&) { has_come = true; });
    const Deadline limit = soon();
    while (!has_come && !has_passed(limit)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(has_come);
    work.wait();
    EXPECT_EQ(values, Values(counts[2], 0));
  });
}

TEST(MemoryMessenger, HasNoThreadWhileItIsIdle) {
  RingRanks all(2);
  MemoryMessenger first(all.transport(0), all.rings(0));
  MemoryMessenger second(all.transport(1), all.rings(1));
  const std::size_t before = thread_count();
  for (int i = 0; i < 2; ++i) {
    Values received(10);
    const Values sent(10, 7);
    const Work work = second.recv(Tensor::of(received), 0, 0, soon(), true);
    EXPECT_GT(thread_count(), before);
    (void)first.send(Tensor::of(sent), 1, 0, soon(), false);
    work.wait();
    EXPECT_EQ(received, sent);
    EXPECT_TRUE(threads_end(before));
  }
}

TEST(MemoryMessenger, ACallThatWaitsASecondUsesLittleOfAProcessor) {
  RingRanks all(2);
  MemoryMessenger messenger(all.transport(0), all.rings(0));
  Values received(10);
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = used();
  EXPECT_THROW(
      messenger.recv(Tensor::of(received), 1, 0, deadline_after(std::chrono::seconds(1)), false).wait(),
      DistNetworkError);
  EXPECT_LT(used() - before, std::chrono::milliseconds(50));
}

TEST(MemoryMessenger, ALossEndsACallThatSleeps) {
  RingRanks all(2);
  MemoryMessenger messenger(all.transport(0), all.rings(0));
  std::thread losing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it may sleep by then, or not
    all.end(1, "it died");
  });
  Values received(10);
  try {
    messenger.recv(Tensor::of(received), 1, 0, soon(), false).wait();
    ADD_FAILURE() << "no error";
  } catch (const DistNetworkError& e) {
    EXPECT_EQ(e.context().peer, 1);
    EXPECT_EQ(e.reason(), "it died");
  }
  losing.join();
}

TEST(MemoryMessenger, DrainWaitsUntilALongMessageIsReceived) {
  RingRanks all(2);
  MemoryMessenger sender(all.transport(0), all.rings(0));
  const Values sent(counts[2], 3);
  const Work out = sender.send(Tensor::of(sent), 1, 0, soon(), true);
  Values received(counts[2]);
  std::thread other([&] {
    MemoryMessenger receiver(all.transport(1), all.rings(1));
    receiver.recv(Tensor::of(received), 0, 0, soon(), false).wait();
    receiver.drain(soon());
  });
  sender.drain(soon());
  EXPECT_TRUE(out.is_success());
  other.join();
  EXPECT_EQ(received, sent);
}

TEST(MemoryMessenger, DrainEndsWhatNoRankReceives) {
  RingRanks all(2);
  MemoryMessenger sender(all.transport(0), all.rings(0));
  const Values sent(counts[2], 3);
  Values received(1);
  const Work out = sender.send(Tensor::of(sent), 1, 0, soon(), true);
  const Work in = sender.recv(Tensor::of(received), 1, 0, soon(), true);
  sender.drain(deadline_after(std::chrono::milliseconds(10)));
  for (const Work& work : {out, in}) {
    const std::exception_ptr error = work.exception();
    ASSERT_TRUE(error);
    EXPECT_EQ(message_of(error), "the group was destroyed before the message was received");
  }
  EXPECT_THROW((void)sender.send(Tensor::of(received), 1, 0, soon(), true), DistError);
}

TEST(MemoryMessenger, MessagesThatWereSentOutliveTheirSender) {
  RingRanks all(2);
  constexpr std::size_t count = 5000;
  std::vector<Values> sent;
  for (int i = 0; i < 30; ++i) sent.emplace_back(count, i);
  std::size_t complete = 0;
  {
    MemoryMessenger sender(all.transport(0), all.rings(0));
    for (const Values& values : sent) {
      const Work work = sender.send(Tensor::of(values), 1, 0, soon(), true);
      if (complete == static_cast<std::size_t>(values[0]) && work.is_completed()) ++complete;
    }
    sender.flush(deadline_after(std::chrono::milliseconds(10)));
    all.leave(0);
  }
  EXPECT_GE(complete, 2U);
  EXPECT_LT(complete, sent.size());
  MemoryMessenger receiver(all.transport(1), all.rings(1));
  for (std::size_t i = 0; i < complete; ++i) {
    Values received(count);
    receive(receiver, received, 0);
    EXPECT_EQ(received, sent[i]);
  }
}

TEST(MemoryMessenger, PiecesComeThoughBothRanksSleep) {
  RingRanks all(2);
  all.rings(0).forbid_direct_reads();
  all.rings(1).forbid_direct_reads();
  run(all, [](int rank, MemoryMessenger& messenger) {
    for (int round = 0; round < 20; ++round) {
      Values values(std::size_t{1} << 18U, round);  // four rings of it
      if (rank == round % 2) {
        send(messenger, values, 1 - rank);
      } else {
        values.assign(values.size(), -1);
        receive(messenger, values, 1 - rank);
        EXPECT_EQ(values.back(), round);
      }
    }
  });
}

// A program may hold a lock while it starts an operation that a callback of another one needs.
TEST(MemoryMessenger, AnAsynchronousCallRunsNoCallbackOfAnother) {
  RingRanks all(2);
  MemoryMessenger first(all.transport(0), all.rings(0));
  MemoryMessenger second(all.transport(1), all.rings(1));
  for (int round = 0; round < 100; ++round) {
    Values received(1);
    Values sent(1, round);
    Values other(1);
    Values answer(1);
    std::atomic<std::thread::id> ran_on;
    const Work work = second.recv(Tensor::of(received), 0, 0, soon(), true);
    work.then([&](const Work&) { ran_on = std::this_thread::get_id(); });
    (void)first.send(Tensor::of(sent), 1, 0, soon(), false);
    const Work later = second.recv(Tensor::of(other), 0, 1, soon(), true);
    (void)second.send(Tensor::of(answer), 0, 2, soon(), true);
    work.wait();
    EXPECT_NE(ran_on.load(), std::this_thread::get_id());
    EXPECT_EQ(received, sent);
    (void)first.send(Tensor::of(sent), 1, 1, soon(), false);
    first.recv(Tensor::of(answer), 1, 2, soon(), false).wait();
    later.wait();
  }
}

}  // namespace
}  // namespace dlaunch::internal
