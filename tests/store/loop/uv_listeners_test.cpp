// Listening sockets: addresses, names, families, and what they accept.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "tests/store/loop/uv_loop_fixture.h"

namespace dlaunch::store {
namespace {

using namespace std::chrono_literals;
using namespace test;

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

}  // namespace
}  // namespace dlaunch::store
