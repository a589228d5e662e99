// How a process listens, and how it connects to another one.

#include "runtime/sockets/dial.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/sockets/pending_connections.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/collectives/thread_transport.h"

namespace dlaunch::internal {
namespace {

using test::error_of;
using test::soon;

const ProcessId own_id(process_id_size, 'c');

Contact contact_of(const Listener& listener) {
  return {std::string(process_id_size, 'L'), "127.0.0.1", listener.port, std::string(key_size, 'k'), 1, 2};
}

Descriptor accepted(const Listener& listener) {
  pollfd ready{listener.socket.get(), POLLIN, 0};
  EXPECT_EQ(poll(&ready, 1, 60'000), 1);
  return accept_from(listener.socket.get());
}

TEST(ListenAt, TakesAFreePort) {
  const Listener one = listen_at("127.0.0.1");
  const Listener other = listen_at("127.0.0.1");
  EXPECT_NE(one.port, 0);
  EXPECT_NE(one.port, other.port);
  EXPECT_EQ(error_of([] { listen_at("localhost"); }),
            "cannot use the local address localhost: it is not a numeric address");
  EXPECT_EQ(error_of([] { listen_at("192.0.2.1"); }),
            "cannot use the local address 192.0.2.1: Cannot assign requested address");
}

TEST(AcceptFrom, DoesNotWait) {
  const Listener listener = listen_at("127.0.0.1");
  const Descriptor none = accept_from(listener.socket.get());
  EXPECT_FALSE(none.is_open());
  EXPECT_EQ(errno, EAGAIN);
}

// The listener's side of one handshake: the peer that has proved itself.
std::unique_ptr<PendingConnections::Member> member_at(const Listener& listener, const Contact& self) {
  PendingConnections pending;
  Descriptor socket = accepted(listener);
  const int fd = socket.get();
  pending.add(1, std::move(socket));
  while (pending.has(1)) {
    if (auto member = pending.authenticate(1, self)) {
      return std::make_unique<PendingConnections::Member>(*std::move(member));
    }
    pollfd ready{fd, POLLIN, 0};
    EXPECT_EQ(poll(&ready, 1, 60'000), 1);
  }
  return nullptr;
}

TEST(Dial, BothSidesProveThemselvesAndCanTalk) {
  const Listener listener = listen_at("127.0.0.1");
  const Contact there = contact_of(listener);
  std::unique_ptr<PendingConnections::Member> member;
  std::thread other([&] { member = member_at(listener, there); });
  const Descriptor socket = dial(there, own_id, soon(), {});
  other.join();
  ASSERT_TRUE(member);
  EXPECT_EQ(member->id, own_id);
  EXPECT_EQ(send(socket.get(), "x", 1, 0), 1);
  char byte = 0;
  pollfd ready{member->socket.get(), POLLIN, 0};
  ASSERT_EQ(poll(&ready, 1, 60'000), 1);
  EXPECT_EQ(recv(member->socket.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST(Dial, AnAddressThatIsNoneIsAnError) {
  const Contact there{std::string(process_id_size, 'L'), "node1", 80, std::string(key_size, 'k'), 1, 2};
  EXPECT_EQ(error_of([&] { dial(there, own_id, soon(), {}); }),
            "cannot connect with it: node1:80 is not an address");
}

// The process is dead: nobody listens at its port. The cause is often known a moment later.
TEST(Dial, ARefusalIsAnErrorUnlessItsCauseIsKnown) {
  Contact there;
  {
    const Listener listener = listen_at("127.0.0.1");
    there = contact_of(listener);
  }
  EXPECT_EQ(error_of([&] { dial(there, own_id, soon(), {}); }),
            "cannot connect with it: 127.0.0.1:" + std::to_string(there.port) + ": Connection refused");
  EXPECT_EQ(error_of([&] {
              dial(there, own_id, soon(), [] { throw DistNetworkError("rank 2 died", {.peer = 2}); });
            }),
            "peer 2: rank 2 died");
}

// A foreign process holds the port, or one that cannot prove itself: the dialler asks again.
TEST(Dial, TriesAgainUntilTheProofOrTheDeadline) {
  const Listener listener = listen_at("127.0.0.1");
  const Contact there = contact_of(listener);
  std::unique_ptr<PendingConnections::Member> member;
  std::thread other([&] {
    (void)accepted(listener);  // closed at once
    {
      const Descriptor liar = accepted(listener);
      const std::string wrong(challenge_size, 'x');
      EXPECT_EQ(send(liar.get(), wrong.data(), wrong.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(wrong.size()));
    }
    member = member_at(listener, there);
  });
  const Descriptor socket = dial(there, own_id, soon(), {});
  other.join();
  EXPECT_TRUE(socket.is_open());
  ASSERT_TRUE(member);
  EXPECT_EQ(member->id, own_id);
}

TEST(Dial, ASilentListenerIsGivenUpAtTheDeadline) {
  const Listener listener = listen_at("127.0.0.1");
  EXPECT_EQ(error_of([&] {
              dial(contact_of(listener), own_id, deadline_after(std::chrono::milliseconds(100)), {});
            }),
            "no connection was made before the deadline");
  EXPECT_EQ(error_of([&] {
              dial(contact_of(listener), own_id, soon(),
                   [] { throw DistNetworkError("rank 2 died", {.peer = 2}); });
            }),
            "peer 2: rank 2 died");
}

TEST(Prepare, SendsWithoutDelayAndProbesAnIdlePeer) {
  const Listener listener = listen_at("127.0.0.1");
  const Contact there = contact_of(listener);
  std::thread other([&] { (void)member_at(listener, there); });
  const Descriptor socket = dial(there, own_id, soon(), {});
  other.join();
  prepare(socket.get());
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(getsockopt(socket.get(), level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_LE(option(SOL_SOCKET, SO_SNDBUF), 2 * 192 * 1024);  // the kernel doubles it
}

}  // namespace
}  // namespace dlaunch::internal
