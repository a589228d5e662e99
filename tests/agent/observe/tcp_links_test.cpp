#include "agent/observe/tcp_links.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace dlaunch::agent {
namespace {

std::uint64_t inode_of(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

// Two connected sockets.
class TcpLinksTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    const int listener = socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0) GTEST_SKIP() << "this machine has no such addresses";
    sockaddr_storage place{};
    socklen_t size = sizeof place;
    if (GetParam() == AF_INET6) {
      auto& v6 = reinterpret_cast<sockaddr_in6&>(place);
      v6.sin6_family = AF_INET6;
      v6.sin6_addr = in6addr_loopback;
    } else {
      auto& v4 = reinterpret_cast<sockaddr_in&>(place);
      v4.sin_family = AF_INET;
      v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    auto* const address = reinterpret_cast<sockaddr*>(&place);
    if (bind(listener, address, size) != 0) GTEST_SKIP() << "this machine has no such addresses";
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, address, &size), 0);
    ends_[0] = socket(GetParam(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(ends_[0], address, size), 0);
    ends_[1] = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    ASSERT_GE(ends_[1], 0);
    close(listener);
  }
  ~TcpLinksTest() override {
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }
  std::array<int, 2> ends_{-1, -1};
};

TEST_P(TcpLinksTest, AConnectionWithNothingToSendIsNotThere) {
  const auto links = waiting_tcp_links();
  for (const int end : ends_) EXPECT_FALSE(links.contains(inode_of(end)));
}

TEST_P(TcpLinksTest, WhatTheOtherEndHasNoRoomForWaits) {
  const std::string piece(64 * 1024, 'x');
  while (send(ends_[0], piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  const auto links = waiting_tcp_links();
  const auto found = links.find(inode_of(ends_[0]));
  ASSERT_NE(found, links.end());
  EXPECT_GT(found->second.unsent + found->second.unacknowledged, 0U);
  EXPECT_EQ(found->second.peer, -1);
  EXPECT_LT(found->second.since_sent, std::chrono::minutes(10));
  EXPECT_FALSE(links.contains(inode_of(ends_[1]))) << "it has sent nothing";
}

INSTANTIATE_TEST_SUITE_P(Families, TcpLinksTest, testing::Values(AF_INET, AF_INET6));

}  // namespace
}  // namespace dlaunch::agent
