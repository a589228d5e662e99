// Messages from memory to memory over TCP: given up on either side, and received from any rank. (The others:
// tcp_transport_test.cpp.)

#include "runtime/backends/gloo/tcp_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <latch>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "runtime/base/deadline.h"
#include "tests/runtime/gloo/tcp_ranks.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::connected;
using test::expect_success;
using test::network_error_of;
using test::soon;
using Bytes = std::vector<std::byte>;
using Event = AnySourceReceive::Event;

Bytes bytes_with(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

// A receive that was given up keeps its place: the next one gets the next message.
TEST(TcpMessages, AnAbandonedReceiveLosesItsMessageOnly) {
  std::latch abandoned(1);
  expect_success(connected(2, [&](TcpTransport& transport) {
    const Bytes first = bytes_with(1'000'000, 1);
    const Bytes second = bytes_with(1'000'000, 2);
    if (transport.rank() == 0) {
      abandoned.wait();
      const auto a = transport.post_send(1, 7, first);
      transport.post_send(1, 7, second)->wait(soon());
      a->wait(soon());
    } else {
      Bytes unused(first.size());
      Bytes in(second.size());
      transport.post_recv(0, 7, unused).reset();
      abandoned.count_down();
      transport.post_recv(0, 7, in)->wait(soon());
      EXPECT_EQ(in, second);
      EXPECT_EQ(unused, Bytes(first.size()));
    }
    transport.shutdown(soon());
  }));
}

// A send that waits for its receive is withdrawn: the receive gets the next one.
TEST(TcpMessages, AnAbandonedSendThatWaitsIsWithdrawn) {
  std::latch abandoned(1);
  expect_success(connected(2, [&](TcpTransport& transport) {
    const Bytes first = bytes_with(1000, 1);
    const Bytes second = bytes_with(1000, 2);
    if (transport.rank() == 0) {
      transport.post_send(1, 7, first).reset();
      abandoned.count_down();
      transport.post_send(1, 7, second)->wait(soon());
    } else {
      abandoned.wait();
      Bytes in(second.size());
      transport.post_recv(0, 7, in)->wait(soon());
      EXPECT_EQ(in, second);
    }
    transport.shutdown(soon());
  }));
}

TEST(TcpMessages, AnyRankMayBeReceivedFrom) {
  constexpr int size = 4;
  for (const std::size_t length : {std::size_t{1}, std::size_t{300'000}}) {
    expect_success(connected(size, [&](TcpTransport& transport) {
      if (transport.rank() == 0) {
        std::set<int> senders;
        for (int i = 1; i < size; ++i) {
          Bytes in(length);
          const auto receive = transport.post_recv_any(7, in);
          auto arrival = receive->wait(soon());
          while (arrival.event == Event::left) arrival = receive->wait(soon());  // those that are done
          ASSERT_EQ(arrival.event, Event::message);
          EXPECT_EQ(in, bytes_with(length, arrival.peer));
          EXPECT_TRUE(senders.insert(arrival.peer).second);
        }
      } else {
        const Bytes out = bytes_with(length, transport.rank());
        transport.post_send(0, 7, out)->wait(soon());
      }
      transport.shutdown(soon());
    }));
  }
}

TEST(TcpMessages, AReceiveFromAnyRankIsWokenFromAnotherThread) {
  std::latch over(1);
  expect_success(connected(2, [&](TcpTransport& transport) {
    if (transport.rank() == 0) {
      Bytes in(1);
      const auto receive = transport.post_recv_any(7, in);
      EXPECT_EQ(receive->wait(Deadline::min()).event, Event::nothing);
      EXPECT_EQ(receive->wait(deadline_after(std::chrono::milliseconds(5))).event, Event::nothing);
      std::thread waker([&] { receive->wake(); });
      EXPECT_EQ(receive->wait(Deadline::max()).event, Event::nothing);
      waker.join();
      receive->wake();  // before the wait
      EXPECT_EQ(receive->wait(Deadline::max()).event, Event::nothing);
      over.count_down();
    }
    over.wait();
    transport.shutdown(soon());
  }));
}

TEST(TcpMessages, AReceiveFromAnyRankReportsEachLeaverOnce) {
  constexpr int size = 3;
  expect_success(connected(size, [&](TcpTransport& transport) {
    if (transport.rank() == 0) {
      Bytes in(1);
      const auto receive = transport.post_recv_any(7, in);
      std::set<int> left;
      for (int i = 1; i < size; ++i) {
        const auto arrival = receive->wait(soon());
        ASSERT_EQ(arrival.event, Event::left);
        EXPECT_TRUE(left.insert(arrival.peer).second);
      }
      EXPECT_EQ(receive->wait(Deadline::min()).event, Event::nothing);
      std::vector<int> departed = transport.departed();
      std::ranges::sort(departed);
      EXPECT_EQ(departed, (std::vector<int>{1, 2}));
    }
    transport.shutdown(soon());
  }));
}

// A message that was sent before its sender left arrives first.
TEST(TcpMessages, AMessageComesBeforeTheLeaveOfItsSender) {
  for (int round = 0; round < 10; ++round) {
    expect_success(connected(2, [&](TcpTransport& transport) {
      const Bytes out = bytes_with(50'000, 3);
      if (transport.rank() == 1) {
        transport.post_send(0, 7, out)->wait(soon());
      } else {
        Bytes in(out.size());
        const auto receive = transport.post_recv_any(7, in);
        EXPECT_EQ(receive->wait(soon()).event, Event::message);
        EXPECT_EQ(in, out);
      }
      transport.shutdown(soon());
    }));
  }
}

// A receive that has no message yet can be taken back; the message then waits for the next one.
TEST(TcpMessages, AReceiveFromAnyRankCanBeRetracted) {
  std::latch retracted(1);
  expect_success(connected(2, [&](TcpTransport& transport) {
    const Bytes out = bytes_with(10, 3);
    if (transport.rank() == 1) {
      retracted.wait();
      transport.post_send(0, 7, out)->wait(soon());
    } else {
      Bytes unused(out.size());
      auto receive = transport.post_recv_any(7, unused);
      EXPECT_TRUE(receive->retract());
      receive.reset();
      retracted.count_down();
      Bytes in(out.size());
      receive = transport.post_recv_any(7, in);
      EXPECT_EQ(receive->wait(soon()).peer, 1);
      EXPECT_FALSE(receive->retract());  // its message has come
      EXPECT_EQ(in, out);
      EXPECT_EQ(unused, Bytes(out.size()));
    }
    transport.shutdown(soon());
  }));
}

TEST(TcpMessages, AnAbortEndsAReceiveFromAnyRank) {
  std::barrier posted(2);
  expect_success(connected(2, [&](TcpTransport& transport) {
    Bytes in(1);
    const auto receive = transport.post_recv_any(7, in);
    posted.arrive_and_wait();
    if (transport.rank() == 0) transport.abort("the disk is full");
    EXPECT_NE(network_error_of([&] { (void)receive->wait(soon()); }).find("the disk is full"),
              std::string::npos);
  }));
}

}  // namespace
}  // namespace dlaunch::internal
