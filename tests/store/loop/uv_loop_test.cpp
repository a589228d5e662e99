// The outside world over libuv: the contracts of io.h and uv_loop.h on real sockets.
#include "store/loop/uv_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <system_error>
#include <thread>

#include "tests/store/client/reserved_port.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using test::ReservedPort;

// One end of a connection; the test sets its functions.
struct End final : ConnectionHandler {
  void on_connected(ConnId conn) override {
    events += "connected ";
    if (connected) connected(conn);
  }
  void on_received(ConnId conn, ByteSpan bytes) override {
    got += as_text(bytes);
    if (received) received(conn);
  }
  void on_drained(ConnId conn) override {
    events += "drained ";
    if (drained) drained(conn);
  }
  void on_closed(ConnId conn, const ConnectionEnd& ended) override {
    events += "closed ";
    error = ended.reason;
    kind = ended.kind;
    if (closed) closed(conn);
  }
  std::function<void(ConnId)> connected;
  std::function<void(ConnId)> received;
  std::function<void(ConnId)> drained;
  std::function<void(ConnId)> closed;
  std::string got;
  std::string events;
  std::optional<Error> error;
  std::optional<CloseKind> kind;
};

struct Acceptor final : ListenerHandler {
  ConnectionHandler& on_accepted(ConnId conn, const Address& peer) override {
    last = conn;
    from = peer;
    ++count;
    if (accepted) accepted(conn);
    return end;
  }
  std::function<void(ConnId)> accepted;
  End end;
  ConnId last;
  Address from;
  int count = 0;
};

struct Alarm final : TimerHandler {
  void on_timer(TimerId) override {
    if (rings) rings();
  }
  std::function<void()> rings;
};

class UvLoopTest : public testing::Test {
 protected:
  Address listen(const std::string& host = "127.0.0.1") {
    auto listening = loop.listen({host, 0}, acceptor);
    EXPECT_TRUE(listening) << listening.error().message();
    return {host, listening->port};
  }
  ConnId connect(const Address& address, Duration patience = 60s) {
    return loop.connect(address, loop.now() + patience, end);
  }
  std::function<void(ConnId)> stop() {
    return [this](ConnId) { loop.stop(); };
  }
  void send(ConnId conn, std::string_view bytes) { loop.send(conn, as_byte_span(bytes)); }

  // Declared first, so that the loop is destroyed before the handlers.
  Acceptor acceptor;
  End end;
  Alarm alarm;
  UvLoop loop;
};

TEST_F(UvLoopTest, RunsOnlyWhileSomethingCanHappen) { loop.run(); }

TEST_F(UvLoopTest, StopBeforeRunIsKept) {
  listen();
  loop.stop();
  loop.run();
}

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

TEST_F(UvLoopTest, ReportsAPortInUse) {
  const Address address = listen();
  Acceptor second;
  const auto taken = loop.listen(address, second);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::in_use);
  EXPECT_EQ(taken.error().message(), "cannot listen on " + to_string(address) + ": address already in use");
}

TEST_F(UvLoopTest, ListensOnASocketThatOthersBound) {
  for (const bool listens : {false, true}) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (listens) {
      ASSERT_EQ(::listen(socket, 1), 0);
    }
    const auto listening = loop.listen_on(socket, acceptor);
    ASSERT_TRUE(listening) << listening.error().message();
    EXPECT_EQ(listening->addresses, (std::vector<Address>{{"127.0.0.1", listening->port}}));
    acceptor.accepted = [&](ConnId) { loop.stop(); };
    connect({"127.0.0.1", listening->port});
    loop.run();
    loop.unlisten(listening->id);
  }
  EXPECT_EQ(acceptor.count, 2);
}

TEST_F(UvLoopTest, ReportsADescriptorThatIsNoSocket) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const auto wrong = loop.listen_on(pipe_ends[0], acceptor);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "cannot listen on socket " + std::to_string(pipe_ends[0]) + ": socket operation on non-socket");
  loop.run();
  EXPECT_EQ(fcntl(pipe_ends[0], F_GETFD), -1);  // the loop owned it
  close(pipe_ends[1]);

  const int local = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(loop.listen_on(local, acceptor).error().message(),
            "cannot listen on socket " + std::to_string(local) + ": address family not supported");
}

TEST_F(UvLoopTest, ReportsANonLocalAddress) {
  const auto foreign = loop.listen({"192.0.2.1", 0}, acceptor);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().kind, ErrorKind::foreign);
  const auto unknown = loop.listen({"no-such-host.invalid", 0}, acceptor);
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().kind, ErrorKind::foreign);
}

TEST_F(UvLoopTest, ListensOnAllThatANameMeans) {
  const Address address = listen("localhost");
  int wanted = 0;
  acceptor.accepted = [&](ConnId conn) {
    loop.close(conn);
    if (acceptor.count == wanted) loop.stop();
  };
  for (const char* host : {"127.0.0.1", "localhost"}) {
    ++wanted;
    connect({host, address.port});
  }
  loop.run();
  EXPECT_EQ(acceptor.count, wanted);
}

TEST_F(UvLoopTest, AStarMeansBothFamilies) {
  for (const char* host : {"*", ""}) {
    Acceptor all;
    const auto listening = loop.listen({host, 0}, all);
    ASSERT_TRUE(listening);
    ASSERT_EQ(listening->addresses.size(), 1U);
    const bool dual = listening->addresses[0].host == "::";
    int wanted = 0;
    all.accepted = [&](ConnId conn) {
      loop.close(conn);
      if (all.count == wanted) loop.stop();
    };
    for (const char* target : {"127.0.0.1", "::1"}) {
      if (!dual && target[0] == ':') continue;
      ++wanted;
      connect({target, listening->port});
    }
    loop.run();
    EXPECT_EQ(all.count, wanted);
    EXPECT_TRUE(all.from.host == "127.0.0.1" || all.from.host == "::1") << all.from.host;
    loop.unlisten(listening->id);
  }
}

TEST_F(UvLoopTest, AcceptsAStorm) {
  constexpr int many = 500;
  const Address address = listen();
  acceptor.accepted = [&](ConnId) {
    if (acceptor.count == many) loop.stop();
  };
  for (int i = 0; i < many; ++i) connect(address);
  loop.run();
  EXPECT_EQ(acceptor.count, many);
}

TEST_F(UvLoopTest, AfterUnlistenNoConnectionIsAccepted) {
  auto listening = loop.listen({"127.0.0.1", 0}, acceptor);
  ASSERT_TRUE(listening);
  loop.unlisten(listening->id);
  loop.unlisten(listening->id);
  connect({"127.0.0.1", listening->port});
  loop.run();
  EXPECT_EQ(end.events, "closed ");
  EXPECT_EQ(acceptor.count, 0);
}

std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 2654435761U >> 24U);
  return bytes;
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

TEST_F(UvLoopTest, AListenerWithoutMemoryDropsTheCaller) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId) {
    if (acceptor.count == 1) throw std::bad_alloc();
    loop.stop();
  };
  end.closed = [&](ConnId) { connect(address); };
  connect(address);
  loop.run();
  EXPECT_EQ(acceptor.count, 2);
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

TEST_F(UvLoopTest, TimersRingInOrderAndNotEarly) {
  std::string order;
  std::map<char, Alarm> alarms;
  const TimePoint start = loop.now();
  const auto set = [&](char name, Duration after) {
    alarms[name].rings = [&, name, after] {
      order += name;
      EXPECT_GE(loop.now(), start + after);
      if (name == 'c') loop.stop();
    };
    return loop.arm(start + after, alarms[name]);
  };
  set('c', 30ms);
  set('b', 10ms);
  const TimerId never = set('x', 15ms);
  set('a', -1s);
  loop.disarm(never);
  loop.disarm(never);
  loop.run();
  EXPECT_EQ(order, "abc");
}

TEST_F(UvLoopTest, ADisarmedTimersIdIsNotTheNextOnes) {
  Alarm other;
  other.rings = [&] { loop.stop(); };
  const TimerId first = loop.arm(loop.now() + 1h, alarm);
  loop.disarm(first);
  loop.arm(loop.now() + 1ms, other);
  loop.disarm(first);
  loop.run();
}

TEST_F(UvLoopTest, TheClockStandsStillDuringAnEvent) {
  alarm.rings = [&] {
    const TimePoint before = loop.now();
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(loop.now(), before);
  };
  const TimePoint before = loop.now();
  loop.arm(before, alarm);
  loop.run();
  EXPECT_GE(loop.now(), before + 2ms);
}

TEST_F(UvLoopTest, PostRunsOnTheLoop) {
  listen();  // so that the loop has a reason to run
  std::thread::id where;
  std::thread other([&] {
    loop.post([&] {
      where = std::this_thread::get_id();
      loop.stop();
    });
  });
  loop.run();
  other.join();
  EXPECT_EQ(where, std::this_thread::get_id());
}

// In a process of its own, with a limit on open files.
int made_with(rlim_t free) {
  const pid_t pid = fork();
  if (pid == 0) {
    close_range(3, ~0U, 0);
    const rlimit few{3 + free, 3 + free};
    if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(2);
    try {
      UvLoop loop;
      loop.run();
      _exit(0);
    } catch (const std::system_error& e) {
      _exit(e.code().value() == EMFILE ? 1 : 3);
    }
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(UvLoopAlone, ReportsThatNoDescriptorsAreLeft) {
  int free = 0;
  while (free < 20 && made_with(static_cast<rlim_t>(free)) == 1) ++free;
  EXPECT_GT(free, 0);
  for (int more = 0; more < 3; ++more) EXPECT_EQ(made_with(static_cast<rlim_t>(free + more)), 0) << free;
}

TEST_F(UvLoopTest, GoesCleanlyWithEverythingOpen) {
  const Address address = listen();
  acceptor.accepted = [&](ConnId conn) {
    send(conn, pattern(4 << 20));
    if (acceptor.count == 3) loop.stop();
  };
  for (int i = 0; i < 3; ++i) connect(address);
  loop.arm(loop.now() + 1h, alarm);
  loop.run();
  connect(address);
  connect({"localhost", address.port});
}

}  // namespace
}  // namespace dlaunch::store
