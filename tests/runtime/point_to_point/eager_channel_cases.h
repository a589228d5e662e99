// The contract of an EagerChannel, for every Transport.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "dlaunch/error.h"
#include "dlaunch/transport.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::test {

using namespace internal;

// Runs a body on each of so many connected ranks, which are threads; returns the exceptions of the bodies.
using OnTransports =
    std::function<std::vector<std::exception_ptr>(int size, const std::function<void(Transport&)>& body)>;

// The n-th message between two ranks: length and bytes follow from all three numbers.
inline std::vector<std::byte> eager_message(int from, int to, int number) {
  const std::size_t lengths[] = {4, 100, EagerChannel::max_message_size, 5000, 64};
  std::vector<std::byte> bytes(lengths[static_cast<std::size_t>(number) % std::size(lengths)]);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(number * 31 + from * 3 + to));
  }
  const auto length = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes;
}

inline void send_eager(EagerChannel& channel, int from, int to, int number, Deadline deadline = soon()) {
  const std::vector<std::byte> message = eager_message(from, to, number);
  std::byte* const draft = channel.compose(to, deadline);
  EXPECT_EQ(channel.compose(to, Deadline::min()), draft);
  std::ranges::copy(message, draft);
  channel.send(to, message.size());
}

inline void expect_eager(EagerChannel& channel, int from, int to, int number) {
  const std::vector<std::byte> wanted = eager_message(from, to, number);
  const std::byte* const message = channel.receive(from, soon());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(message) % 16, 0U);
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), message)) << "message " << number << " from " << from;
  EXPECT_EQ(channel.receive(from, Deadline::min()), message);
  channel.release(from);
}

template <class F>
std::string network_error_of(const F& f) {
  try {
    f();
  } catch (const DistNetworkError& e) {
    return e.what();
  }
  return "no error";
}

inline void expect_no_errors(const std::vector<std::exception_ptr>& errors) {
  for (const std::exception_ptr& error : errors) {
    if (error) ADD_FAILURE() << message_of(error);
  }
}

// More messages than may wait, of all lengths, from every rank to every rank.
inline void channels_keep_the_order(const OnTransports& on_transports) {
  constexpr int messages = 5 * EagerChannel::max_unreceived + 3;
  expect_no_errors(on_transports(3, [](Transport& transport) {
    EagerChannel& channel = transport.eager_channel();
    const int rank = transport.rank();
    for (int number = 0; number < messages; ++number) {
      for (const int peer : {(rank + 1) % 3, (rank + 2) % 3}) send_eager(channel, rank, peer, number);
      for (const int peer : {(rank + 1) % 3, (rank + 2) % 3}) expect_eager(channel, peer, rank, number);
    }
    transport.shutdown(soon());
  }));
}

// A sender that has sent the most messages waits for room, and continues when there is some.
inline void channels_hold_a_sender_back(const OnTransports& on_transports) {
  std::latch tried(1);
  expect_no_errors(on_transports(2, [&tried](Transport& transport) {
    EagerChannel& channel = transport.eager_channel();
    const auto shortly = [] { return deadline_after(std::chrono::milliseconds(30)); };
    if (transport.rank() == 0) {
      for (int number = 0; number < EagerChannel::max_unreceived; ++number) send_eager(channel, 0, 1, number);
      EXPECT_EQ(channel.compose(1, shortly()), nullptr);
      EXPECT_EQ(channel.compose(1, Deadline::min()), nullptr);
      tried.count_down();
      send_eager(channel, 0, 1, 100);
      EXPECT_EQ(channel.receive(1, shortly()), nullptr);
      EXPECT_EQ(channel.receive(1, Deadline::min()), nullptr);
      send_eager(channel, 0, 1, 101);
      expect_eager(channel, 1, 0, 0);
    } else {
      tried.wait();
      for (int number = 0; number < EagerChannel::max_unreceived; ++number)
        expect_eager(channel, 0, 1, number);
      expect_eager(channel, 0, 1, 100);
      expect_eager(channel, 0, 1, 101);  // rank 0 waited for it until now
      send_eager(channel, 1, 0, 0);
    }
    transport.shutdown(soon());
  }));
}

inline void channels_end_with_the_transport(const OnTransports& on_transports) {
  expect_no_errors(on_transports(3, [](Transport& transport) {
    EagerChannel& channel = transport.eager_channel();
    const auto wait = [&] { channel.receive((transport.rank() + 1) % 3, soon()); };
    if (transport.rank() == 0) {
      std::thread aborter([&] { transport.abort("the disk is full"); });
      EXPECT_NE(network_error_of(wait).find("the disk is full"), std::string::npos);
      aborter.join();
      EXPECT_NE(network_error_of([&] { channel.compose(1, soon()); }).find("the disk is full"),
                std::string::npos);
    } else {
      EXPECT_NE(network_error_of(wait).find("gave up: the disk is full"), std::string::npos);
    }
  }));
}

// The messages of a rank that has left can be received, and no others.
inline void channels_keep_what_a_leaver_sent(const OnTransports& on_transports) {
  expect_no_errors(on_transports(2, [](Transport& transport) {
    EagerChannel& channel = transport.eager_channel();
    if (transport.rank() == 0) {
      for (int number = 0; number < 3; ++number) send_eager(channel, 0, 1, number);
      transport.shutdown(soon());
      return;
    }
    std::vector<std::byte> in(1);
    EXPECT_EQ(network_error_of([&] { transport.post_recv(0, 1, in)->wait(soon()); }),
              "peer 0: it has left the group");
    for (int number = 0; number < 3; ++number) expect_eager(channel, 0, 1, number);
    EXPECT_EQ(network_error_of([&] { channel.receive(0, soon()); }), "peer 0: it has left the group");
    transport.shutdown(soon());
  }));
}

}  // namespace dlaunch::test
