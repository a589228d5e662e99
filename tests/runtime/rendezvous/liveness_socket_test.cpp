// A listening socket that shows that its process lives.

#include "runtime/rendezvous/liveness_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

namespace dlaunch::internal {
namespace {

constexpr const char* loopback = "127.0.0.1";

TEST(LivenessSocket, IsClosedWithItsOwner) {
  std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open(loopback);
  const std::string address = liveness_socket->address();
  EXPECT_TRUE(address.starts_with("127.0.0.1 ")) << address;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(LivenessSocket::is_closed(address));
  liveness_socket->accept_and_close();
  EXPECT_FALSE(LivenessSocket::is_closed(address));
  liveness_socket.reset();
  EXPECT_TRUE(LivenessSocket::is_closed(address));
}

TEST(LivenessSocket, SupportsIpv6) {
  std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open("::1");
  if (!liveness_socket) GTEST_SKIP() << "this machine has no IPv6";
  const std::string address = liveness_socket->address();
  EXPECT_FALSE(LivenessSocket::is_closed(address));
  liveness_socket.reset();
  EXPECT_TRUE(LivenessSocket::is_closed(address));
}

// A child that goes on when its parent has died must not seem to be the parent.
TEST(LivenessSocket, IsNotKeptOpenByACopyOfTheProcess) {
  std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open(loopback);
  const std::string address = liveness_socket->address();
  int runs[2];
  ASSERT_EQ(pipe(runs), 0);
  const pid_t copy = fork();
  if (copy == 0) {
    close(runs[1]);
    for (;;) pause();
  }
  close(runs[1]);
  char none = 0;
  EXPECT_EQ(read(runs[0], &none, 1), 0);  // it runs, and has ended its part
  close(runs[0]);
  EXPECT_FALSE(LivenessSocket::is_closed(address));
  liveness_socket.reset();
  EXPECT_TRUE(LivenessSocket::is_closed(address));
  kill(copy, SIGKILL);
  waitpid(copy, nullptr, 0);
}

TEST(LivenessSocket, IsNotReportedClosedAtAnInvalidAddress) {
  for (const char* const address :
       {"", "127.0.0.1", "127.0.0.1 ", "127.0.0.1 0", "127.0.0.1 x", "nowhere 80"})
    EXPECT_FALSE(LivenessSocket::is_closed(address)) << address;
  EXPECT_EQ(LivenessSocket::open("nowhere"), nullptr);
  EXPECT_EQ(LivenessSocket::open("192.0.2.1"), nullptr);  // another machine's
}

// Many ranks look at one of them while its process is busy.
TEST(LivenessSocket, AcceptsAllThatWait) {
  const std::unique_ptr<LivenessSocket> liveness_socket = LivenessSocket::open(loopback);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 200; ++i) EXPECT_FALSE(LivenessSocket::is_closed(liveness_socket->address()));
    liveness_socket->accept_and_close();
  }
}

TEST(LivenessSocket, EachHasItsOwnAddress) {
  const auto one = LivenessSocket::open(loopback);
  auto other = LivenessSocket::open(loopback);
  EXPECT_NE(one->address(), other->address());
  const std::string gone = other->address();
  other.reset();
  EXPECT_FALSE(LivenessSocket::is_closed(one->address()));
  EXPECT_TRUE(LivenessSocket::is_closed(gone));
}

}  // namespace
}  // namespace dlaunch::internal
