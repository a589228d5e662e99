// Messages over connections while the threads that receive them end and start again.

#include "runtime/point_to_point/messenger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/gloo/tcp_ranks.h"
#include "tests/runtime/thread_count.h"

namespace dlaunch::internal {
namespace {

using test::connected;
using test::expect_success;
using test::soon;
using test::thread_count;
using test::threads_end;

constexpr std::size_t counts[] = {10, 100'000};  // short, and longer than a short message

// One message of each length from every rank to every other; `first` sends before the receives are posted,
// the others afterwards.
void exchange(Messenger& messenger, int rank, int size, int first, std::barrier<>& all) {
  std::vector<std::vector<float>> out;
  for (const std::size_t count : counts) out.emplace_back(count, static_cast<float>(rank));
  std::vector<std::vector<float>> in;
  in.reserve(static_cast<std::size_t>(size) * std::size(counts));
  std::vector<Work> works;
  const auto send = [&] {
    for (int peer = 0; peer < size; ++peer) {
      for (const auto& values : out) works.push_back(messenger.send(Tensor::of(values), peer, 1, soon()));
    }
  };
  const auto receive = [&] {
    for (int peer = 0; peer < size; ++peer) {
      for (const std::size_t count : counts) {
        works.push_back(messenger.recv(Tensor::of(in.emplace_back(count)), peer, 1, soon()));
      }
    }
  };
  if (rank == first) send();
  all.arrive_and_wait();
  receive();
  all.arrive_and_wait();
  if (rank != first) send();
  for (const Work& work : works) work.wait();
  for (std::size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(in[i], std::vector<float>(in[i].size(), static_cast<float>(i / std::size(counts))));
  }
}

TEST(Messenger, HasNoThreadsWhileItIsIdle) {
  constexpr int size = 2;
  std::barrier all(size);
  expect_success(connected(size, [&](TcpTransport& transport) {
    Messenger messenger(transport);
    all.arrive_and_wait();
    const std::size_t before = thread_count();
    all.arrive_and_wait();
    for (const int first : {0, 1}) {
      exchange(messenger, transport.rank(), size, first, all);
      EXPECT_TRUE(threads_end(before));
      all.arrive_and_wait();
    }
    messenger.drain(soon());
    transport.shutdown(soon());
  }));
}

// No block arrives after the receive that the thread awaited: this rank itself has sent the message.
TEST(Messenger, HasNoThreadsAfterAMessageToItself) {
  constexpr int size = 2;
  std::barrier all(size);
  expect_success(connected(size, [&](TcpTransport& transport) {
    Messenger messenger(transport);
    all.arrive_and_wait();
    const std::size_t before = thread_count();
    all.arrive_and_wait();
    std::vector<float> from_other(1);
    std::vector<float> from_itself(1);
    const Work own = messenger.recv(Tensor::of(from_itself), transport.rank(), 1, soon());
    const Work other = messenger.recv(Tensor::of(from_other), 1 - transport.rank(), 1, soon());
    const std::vector<float> value(1);
    messenger.send(Tensor::of(value), 1 - transport.rank(), 1, soon()).wait();
    other.wait();  // the thread has begun, and soon waits again
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    messenger.send(Tensor::of(value), transport.rank(), 1, soon()).wait();
    own.wait();
    EXPECT_TRUE(threads_end(before));
    all.arrive_and_wait();
    messenger.drain(soon());
    transport.shutdown(soon());
  }));
}

// A rank whose thread has ended does not notice when another one leaves.
TEST(Messenger, ASendToOneThatLeftMeanwhileIsToldToAll) {
  constexpr int size = 3;
  std::barrier all(size);
  expect_success(connected(size, [&](TcpTransport& transport) {
    Messenger messenger(transport);
    all.arrive_and_wait();
    const std::size_t before = thread_count();
    all.arrive_and_wait();
    exchange(messenger, transport.rank(), size, 0, all);
    EXPECT_TRUE(threads_end(before));
    all.arrive_and_wait();
    if (transport.rank() == 2) {
      messenger.drain(soon());
      return transport.shutdown(soon());
    }
    const std::vector<int> departed = {2};
    const Deadline limit = soon();
    while (transport.departed() != departed && !has_passed(limit)) std::this_thread::yield();
    std::vector<float> values(1);
    try {
      if (transport.rank() == 0) (void)messenger.send(Tensor::of(values), 2, 1, soon());
      if (transport.rank() == 1) messenger.recv(Tensor::of(values), 0, 1, soon()).wait();
      ADD_FAILURE() << "no error on rank " << transport.rank();
    } catch (const DistNetworkError& e) {
      EXPECT_EQ(e.context().peer, 2) << e.what();
    }
    transport.abort("the test is over");
  }));
}

}  // namespace
}  // namespace dlaunch::internal
