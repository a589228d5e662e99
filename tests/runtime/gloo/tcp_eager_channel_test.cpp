// Short messages over TCP.

#include "runtime/backends/gloo/tcp_eager_channel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <vector>

#include "tests/runtime/gloo/tcp_ranks.h"
#include "tests/runtime/point_to_point/eager_channel_cases.h"

namespace dlaunch::internal {
namespace {

using test::connected;
using test::expect_success;
using test::soon;

std::vector<std::exception_ptr> on_tcp(int size, const std::function<void(Transport&)>& body) {
  return connected(size, body);
}

TEST(TcpChannel, KeepsTheOrder) { test::channels_keep_the_order(on_tcp); }

TEST(TcpChannel, HoldsASenderBack) { test::channels_hold_a_sender_back(on_tcp); }

TEST(TcpChannel, EndsWithTheTransport) { test::channels_end_with_the_transport(on_tcp); }

TEST(TcpChannel, KeepsWhatALeaverSent) { test::channels_keep_what_a_leaver_sent(on_tcp); }

// A credit for each message would double the number of frames.
TEST(TcpChannel, RoomComesBackByHalves) {
  constexpr int half = EagerChannel::max_unreceived / 2;
  std::latch sent(1);
  std::latch one_less_than_half(1);
  std::latch tried(1);
  expect_success(connected(2, [&](TcpTransport& transport) {
    EagerChannel& channel = transport.eager_channel();
    if (transport.rank() == 0) {
      for (int number = 0; number < 2 * half; ++number) test::send_eager(channel, 0, 1, number);
      sent.count_down();
      one_less_than_half.wait();
      EXPECT_EQ(channel.compose(1, Deadline::min()), nullptr);
      tried.count_down();
      for (int number = 0; number < half; ++number) test::send_eager(channel, 0, 1, 100 + number);
    } else {
      sent.wait();
      for (int number = 0; number < half - 1; ++number) test::expect_eager(channel, 0, 1, number);
      one_less_than_half.count_down();
      tried.wait();
      for (int number = half - 1; number < 2 * half; ++number) test::expect_eager(channel, 0, 1, number);
      for (int number = 0; number < half; ++number) test::expect_eager(channel, 0, 1, 100 + number);
    }
    transport.shutdown(soon());
  }));
}

// A rank may compose for several peers at once.
TEST(TcpChannel, EachPeerHasADraftOfItsOwn) {
  expect_success(connected(3, [&](TcpTransport& transport) {
    EagerChannel& channel = transport.eager_channel();
    const int rank = transport.rank();
    if (rank == 0) {
      std::byte* const first = channel.compose(1, soon());
      std::byte* const second = channel.compose(2, soon());
      EXPECT_NE(first, second);
      for (const std::byte* const draft : {first, second}) {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(draft) % 64, 0U);
      }
      std::ranges::copy(test::eager_message(0, 1, 2), first);  // the longest
      std::ranges::copy(test::eager_message(0, 2, 2), second);
      channel.send(2, EagerChannel::max_message_size);
      channel.send(1, EagerChannel::max_message_size);
    } else {
      test::expect_eager(channel, 0, rank, 2);
    }
    transport.shutdown(soon());
  }));
}

}  // namespace
}  // namespace dlaunch::internal
