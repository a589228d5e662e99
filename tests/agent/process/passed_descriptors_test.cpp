#include "agent/process/passed_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace dlaunch::agent {
namespace {

class PassedDescriptorsTest : public testing::Test {
 protected:
  PassedDescriptorsTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_.data()), 0);
    EXPECT_EQ(pipe(pipe_.data()), 0);
  }
  ~PassedDescriptorsTest() override {
    for (const int fd : {sockets_[0], sockets_[1], pipe_[0], pipe_[1]}) close(fd);
  }
  struct Message {
    Message() {
      header.msg_iov = &part;
      header.msg_iovlen = 1;
    }
    char byte = 'x';
    iovec part{&byte, 1};
    msghdr header{};
  };
  template <std::size_t count>
  void send(const std::array<int, count>& fds) {
    Message message;
    PassedDescriptors<count> passed;
    passed.send_with(message.header, fds);
    EXPECT_EQ(sendmsg(sockets_[0], &message.header, 0), 1);
  }
  template <std::size_t count>
  std::array<int, count> receive() {
    Message message;
    PassedDescriptors<count> passed;
    passed.receive_with(message.header);
    EXPECT_EQ(recvmsg(sockets_[1], &message.header, MSG_CMSG_CLOEXEC), 1);
    return PassedDescriptors<count>::received(message.header);
  }

  std::array<int, 2> sockets_{};
  std::array<int, 2> pipe_{};
};

TEST_F(PassedDescriptorsTest, ArriveInTheirOrder) {
  send<2>({pipe_[0], pipe_[1]});
  const auto [to_read, to_write] = receive<2>();
  ASSERT_GE(to_read, 0);
  ASSERT_GE(to_write, 0);
  EXPECT_NE(to_read, pipe_[0]) << "they are the receiver's own";
  EXPECT_EQ(write(to_write, "abc", 3), 3);
  std::string got(3, ' ');
  EXPECT_EQ(read(to_read, got.data(), got.size()), 3);
  EXPECT_EQ(got, "abc");
  close(to_read);
  close(to_write);
}

TEST_F(PassedDescriptorsTest, AMessageWithoutAnyHasNone) {
  EXPECT_EQ(::send(sockets_[0], "x", 1, 0), 1);
  EXPECT_EQ(receive<2>(), (std::array{-1, -1}));
}

TEST_F(PassedDescriptorsTest, FewerThanExpectedLeaveTheOthersAtMinusOne) {
  send<1>({pipe_[0]});
  const auto got = receive<2>();
  EXPECT_GE(got[0], 0);
  EXPECT_EQ(got[1], -1);
  close(got[0]);
}

}  // namespace
}  // namespace dlaunch::agent
