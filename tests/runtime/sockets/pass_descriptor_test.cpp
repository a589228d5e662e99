#include "runtime/sockets/pass_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace dlaunch::internal {
namespace {

bool is_same(int one, int other) {
  struct stat first {};
  struct stat second {};
  return fstat(one, &first) == 0 && fstat(other, &second) == 0 && first.st_ino == second.st_ino &&
         first.st_dev == second.st_dev;
}

TEST(PassDescriptor, ADescriptorArrivesWithItsByte) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_FALSE(receive_descriptors(ends[1]).has_byte);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(send_descriptors(ends[0], {&ends[0], 1}));
  EXPECT_TRUE(send_descriptors(ends[0], {}));
  {
    const Passed first = receive_descriptors(ends[1]);
    EXPECT_TRUE(first.has_byte);
    ASSERT_EQ(first.files.size(), 1U);
    EXPECT_TRUE(is_same(ends[0], first.files[0].get()));
  }
  const Passed second = receive_descriptors(ends[1]);
  EXPECT_TRUE(second.has_byte);
  EXPECT_TRUE(second.files.empty());
  close(ends[0]);
  EXPECT_FALSE(receive_descriptors(ends[1]).has_byte);
  close(ends[1]);
}

TEST(PassDescriptor, SeveralArriveInTheirOrder) {
  int ends[2];
  int pipes[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const std::array sent{ends[0], pipes[0], ends[1]};
  EXPECT_TRUE(send_descriptors(ends[0], sent));
  {
    const Passed passed = receive_descriptors(ends[1]);
    ASSERT_EQ(passed.files.size(), sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) EXPECT_TRUE(is_same(sent[i], passed.files[i].get()));
  }
  for (const int fd : {ends[0], ends[1], pipes[0], pipes[1]}) close(fd);
}

TEST(PassDescriptor, AnEndedSocketTakesNone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  close(ends[1]);
  EXPECT_FALSE(send_descriptors(ends[0], {&ends[0], 1}));
  close(ends[0]);
}

}  // namespace
}  // namespace dlaunch::internal
