// Connections: what is sent arrives in order, and each one ends with one reason.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/store/client/reserved_port.h"
#include "tests/store/loop/uv_loop_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

TEST_F(UvLoopTest, CarriesBytesBothWays) {
  const Address address = listen();
  end.connected = [&](ConnId conn) { send(conn, "ping"); };
  acceptor.end.received = [&](ConnId conn) {
    if (acceptor.end.got == "ping") send(conn, "pong");
  };
  end.received = [&](ConnId conn) {
    if (end.got != "pong") return;
    loop.close(conn);
  };
  acceptor.end.closed = stop();
  connect(address);
  loop.run();
  EXPECT_EQ(end.events, "connected ");  // the side that closes gets no event
  EXPECT_EQ(acceptor.end.events, "closed ");
  EXPECT_EQ(acceptor.end.kind, CloseKind::closed_by_peer);
  EXPECT_EQ(acceptor.end.error->why, "closed by the peer");
  EXPECT_EQ(acceptor.from.host, "127.0.0.1");
  EXPECT_EQ(acceptor.end.error->where, to_string(acceptor.from));
}

TEST_F(UvLoopTest, NothingHappensInsideTheCall) {
  bool inside = true;
  end.closed = [&](ConnId) { EXPECT_FALSE(inside); };
  connect(ReservedPort().address());
  alarm.rings = [&] { EXPECT_FALSE(inside); };
  loop.arm(loop.now() - 1s, alarm);
  inside = false;
  loop.run();
  EXPECT_EQ(end.events, "closed ");
}

TEST_F(UvLoopTest, ReportsARefusedConnection) {
  const ReservedPort port;
  connect(port.address());
  loop.run();
  EXPECT_EQ(end.kind, CloseKind::refused);
  EXPECT_EQ(end.error->message(),
            "cannot connect to " + to_string(port.address()) +
                ": connection refused (the host answers, but nothing listens on that port: not started "
                "yet, or another port)");
}

TEST_F(UvLoopTest, ReportsAResetConnection) {
  const Address address = listen();
  const int peer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(address.port);
  ASSERT_EQ(::connect(peer, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  acceptor.accepted = [&](ConnId) {
    const linger abrupt{1, 0};
    EXPECT_EQ(setsockopt(peer, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt), 0);
    ::close(peer);
  };
  acceptor.end.closed = stop();
  loop.run();
  EXPECT_EQ(acceptor.end.kind, CloseKind::reset);
}

TEST_F(UvLoopTest, ReportsAnUnknownName) {
  connect({"no-such-host.invalid", 1});
  loop.run();
  EXPECT_EQ(end.kind, CloseKind::unreachable);
  EXPECT_EQ(end.error->where, "no-such-host.invalid:1");
  EXPECT_TRUE(end.error->why == "name not known (check its spelling, /etc/hosts and DNS)" ||
              end.error->why == "the name service does not answer")
      << end.error->why;
}

TEST_F(UvLoopTest, GivesUpAtTheDeadline) {
  // A lookup never finishes before a deadline that has already passed.
  loop.connect({"localhost", 1}, loop.now() - 1s, end);
  loop.run();
  EXPECT_EQ(end.events, "closed ");
  EXPECT_EQ(end.kind, CloseKind::timed_out);
}

TEST_F(UvLoopTest, ClosedAttemptIsNotReported) {
  const Address address = listen();
  alarm.rings = [&] { loop.stop(); };
  loop.close(connect(address));
  loop.close(connect({"localhost", address.port}));
  const ConnId begun = connect(address);
  Alarm soon;
  soon.rings = [&] { loop.close(begun); };
  loop.arm(loop.now(), soon);
  loop.arm(loop.now() + 20ms, alarm);
  loop.run();
  EXPECT_TRUE(end.events.empty() || end.events == "connected ");
}

TEST_F(UvLoopTest, CloseStillSendsWhatIsQueued) {
  const std::string large = pattern(20 << 20);
  acceptor.accepted = [&](ConnId conn) {
    send(conn, large);
    loop.close(conn);
    send(conn, "too late");
    EXPECT_EQ(loop.unsent(conn), 0U);
  };
  end.closed = stop();
  connect(listen());
  loop.run();
  EXPECT_TRUE(end.got == large);
  EXPECT_EQ(end.error->why, "closed by the peer");
}

// Longer than the time that a peer has to take something.
TEST_F(UvLoopTest, CloseWaitsForAPeerThatReadsSlowly) {
  const std::string large = pattern(20 << 20);
  acceptor.accepted = [&](ConnId conn) {
    send(conn, large);
    loop.close(conn);
  };
  end.received = [&](ConnId conn) {
    loop.pause_reading(conn, true);
    alarm.rings = [&, conn] { loop.pause_reading(conn, false); };
    loop.arm(loop.now() + 15ms, alarm);
  };
  end.closed = stop();
  connect(listen());
  loop.run();
  EXPECT_TRUE(end.got == large) << end.got.size();
}

TEST_F(UvLoopTest, ClosingDoesNotLoseWhatThePeerHasNotReadYet) {
  // The peer's own bytes stay unread, so a plain close would reset the connection.
  const std::string answer = pattern(1 << 20);
  acceptor.accepted = [&](ConnId conn) { loop.pause_reading(conn, true); };
  end.connected = [&](ConnId conn) {
    send(conn, "a question that nobody reads");
    alarm.rings = [&] {
      send(acceptor.last, answer);
      loop.close(acceptor.last);
    };
    loop.arm(loop.now() + 20ms, alarm);
  };
  end.closed = stop();
  connect(listen());
  loop.run();
  EXPECT_TRUE(end.got == answer);
}

TEST_F(UvLoopTest, WhatWasSentIsSentBeforeStop) {
  const Address address = listen();
  {
    UvLoop other;
    End speaker;
    speaker.connected = [&](ConnId conn) {
      other.send(conn, as_byte_span("last words"));
      other.stop();
    };
    other.connect(address, other.now() + 60s, speaker);
    other.run();
  }
  acceptor.end.closed = stop();
  loop.run();
  EXPECT_EQ(acceptor.end.got, "last words");
}

TEST_F(UvLoopTest, SendsEarlyBytesOnceConnected) {
  const Address address = listen();
  acceptor.end.received = [&](ConnId) {
    if (acceptor.end.got == "early bird") loop.stop();
  };
  const ConnId conn = connect(address);
  send(conn, "early ");
  EXPECT_EQ(loop.unsent(conn), 6U);
  send(conn, "bird");
  loop.run();
  EXPECT_EQ(acceptor.end.got, "early bird");
}

TEST_F(UvLoopTest, ReportsWhenAFullQueueHasDrained) {
  const std::string large = pattern(32 << 20);
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) { loop.pause_reading(conn, true); };
  ConnId sender;
  end.connected = [&](ConnId conn) {
    sender = conn;
    send(conn, large);
    EXPECT_GT(loop.unsent(conn), Network::high_water);
    loop.arm(loop.now() + 20ms, alarm);
  };
  alarm.rings = [&] {
    EXPECT_GT(loop.unsent(sender), 0U);  // the peer does not read
    EXPECT_EQ(end.events, "connected ");
    loop.pause_reading(acceptor.last, false);
  };
  end.drained = [&](ConnId conn) {
    EXPECT_EQ(loop.unsent(conn), 0U);
    loop.close(conn);
  };
  acceptor.end.closed = stop();
  connect(address);
  loop.run();
  EXPECT_EQ(end.events, "connected drained ");
  EXPECT_TRUE(acceptor.end.got == large);
}

// Large shared bytes are sent without a copy, between the connection's own bytes.
TEST_F(UvLoopTest, SendsSharedBytesWithoutACopy) {
  const SharedBytes large(std::string(2 << 20, 'x'));
  const SharedBytes small(std::string_view("small"));
  std::string expected;
  for (int i = 0; i < 20; ++i) expected.append("head").append(large.view()).append(small.view());
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) { loop.pause_reading(conn, true); };
  end.connected = [&](ConnId conn) {
    for (int i = 0; i < 20; ++i) {
      send(conn, "head");
      loop.send_shared(conn, large);
      loop.send_shared(conn, small);
    }
    EXPECT_EQ(loop.unsent(conn), expected.size());
    loop.arm(loop.now() + 20ms, alarm);
  };
  std::size_t at_most = 0;
  alarm.rings = [&] {
    at_most = loop.unsent_memory();
    loop.pause_reading(acceptor.last, false);
  };
  end.drained = [&](ConnId conn) { loop.close(conn); };
  acceptor.end.closed = stop();
  connect(address);
  loop.run();
  EXPECT_GT(at_most, 0U);
  EXPECT_LT(at_most, 64U << 10);
  EXPECT_EQ(loop.unsent_memory(), 0U);
  EXPECT_FALSE(large.is_shared());
  EXPECT_TRUE(acceptor.end.got == expected);
}

// Twice as much as the kernel's buffers take; the peer reads nothing.
TEST_F(UvLoopTest, AbortDropsWhatIsQueued) {
  SharedBytes large(std::string(64 << 20, 'x'));
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) { loop.pause_reading(conn, true); };
  end.connected = [&](ConnId conn) {
    send(conn, large.view());
    loop.send_shared(conn, large);
    auto total = std::make_shared<std::uint64_t>(0);
    EXPECT_EQ(loop.unsent_memory(conn), loop.unsent_memory());
    SharedBytes stored = std::exchange(large, {});
    stored.count_in(total);
    stored = {};
    EXPECT_GT(loop.unsent_memory(conn), loop.unsent_memory() + (60U << 20)) << "nobody else has them";
    loop.arm(loop.now() + 20ms, alarm);
    alarm.rings = [this, conn, total] {
      EXPECT_GT(loop.unsent_memory(), 60U << 20);
      loop.abort(conn);
      EXPECT_EQ(loop.unsent_memory(), 0U);
      EXPECT_EQ(*total, 0U);
      loop.pause_reading(acceptor.last, false);
    };
  };
  acceptor.end.closed = stop();
  connect(address);
  loop.run();
  EXPECT_LT(acceptor.end.got.size(), 128U << 20);
  EXPECT_EQ(acceptor.end.events, "closed ");
}

TEST_F(UvLoopTest, WhatEndedConnectionsLeftCanBeDropped) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) { loop.pause_reading(conn, true); };
  end.connected = [&](ConnId conn) {
    send(conn, std::string(64 << 20, 'x'));
    loop.close(conn);
    loop.arm(loop.now() + 20ms, alarm);
  };
  alarm.rings = [&] {
    EXPECT_GT(loop.unsent_memory(), 0U);
    loop.drop_remains();
    EXPECT_EQ(loop.unsent_memory(), 0U);
    loop.pause_reading(acceptor.last, false);
  };
  acceptor.end.closed = stop();
  connect(address);
  loop.run();
  EXPECT_LT(acceptor.end.got.size(), 64U << 20);
}

TEST_F(UvLoopTest, AHandlerWithoutMemoryLosesItsConnectionOnly) {
  const Address address = listen();
  End other;
  ConnId second;
  other.received = stop();
  acceptor.end.received = [&](ConnId conn) {
    if (acceptor.end.got == "greedy") throw std::bad_alloc();
    send(conn, "served");
  };
  end.connected = [&](ConnId conn) { send(conn, "greedy"); };
  end.closed = [&](ConnId) {
    acceptor.end.got.clear();
    send(second, "modest");
  };
  second = loop.connect(address, loop.now() + 60s, other);
  other.connected = [&](ConnId) { connect(address); };
  loop.run();
  EXPECT_EQ(other.got, "served");
  EXPECT_EQ(acceptor.end.events, "closed ");
  EXPECT_EQ(acceptor.end.kind, CloseKind::failed);
}

TEST_F(UvLoopTest, PausedConnectionReceivesNothing) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) {
    loop.pause_reading(conn, true);
    loop.arm(loop.now() + 20ms, alarm);
  };
  end.connected = [&](ConnId conn) { send(conn, "hello"); };
  alarm.rings = [&] {
    EXPECT_EQ(acceptor.end.got, "");
    loop.pause_reading(acceptor.last, false);
  };
  acceptor.end.received = stop();
  connect(address);
  loop.run();
  EXPECT_EQ(acceptor.end.got, "hello");
}

TEST_F(UvLoopTest, HandsAConnectionOver) {
  End second;
  const Address address = listen();
  acceptor.end.received = [&](ConnId conn) {
    loop.hand_over(conn, second);
    send(conn, "next");
  };
  end.connected = [&](ConnId conn) { send(conn, "first"); };
  end.received = [&](ConnId conn) { send(conn, "second"); };
  second.received = [&](ConnId) {
    if (second.got == "second") loop.stop();
  };
  connect(address);
  loop.run();
  EXPECT_EQ(acceptor.end.got, "first");
  EXPECT_EQ(second.got, "second");
}

TEST_F(UvLoopTest, DeadIdsDoNothing) {
  const Address address = listen();
  ConnId dead;
  end.connected = [&](ConnId conn) {
    dead = conn;
    loop.close(conn);
    loop.close(conn);
    send(conn, "nothing");
    loop.pause_reading(conn, true);
    EXPECT_EQ(loop.unsent(conn), 0U);
    // The next connection may reuse the slot; the old id must not reach it.
    const ConnId next = loop.connect(address, loop.now() + 60s, acceptor.end);
    EXPECT_NE(next, conn);
    loop.close(conn);
  };
  int accepted = 0;
  acceptor.accepted = [&](ConnId) {
    if (++accepted == 2) loop.stop();
  };
  connect(address);
  loop.run();
  EXPECT_EQ(accepted, 2);
  loop.send(ConnId{}, as_byte_span("nobody"));
  loop.disarm(TimerId{});
  loop.unlisten(ListenerId{});
}

TEST_F(UvLoopTest, ClosesWhatReports) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) { loop.close(conn); };
  end.closed = [&](ConnId conn) {
    loop.close(conn);
    loop.stop();
  };
  connect(address);
  loop.run();
  EXPECT_EQ(end.events, "connected closed ");
}

}  // namespace
}  // namespace dlaunch::store
