#include "runtime/sockets/pass_descriptor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlaunch::internal {
namespace {

TEST(PassDescriptor, ADescriptorArrivesWithItsByte) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  EXPECT_FALSE(receive_descriptor(ends[1]).has_byte);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(send_descriptor(ends[0], ends[0]));
  EXPECT_TRUE(send_descriptor(ends[0], -1));
  {
    const Passed first = receive_descriptor(ends[1]);
    EXPECT_TRUE(first.has_byte);
    ASSERT_TRUE(first.file.is_open());
    struct stat sent {};
    struct stat got {};
    EXPECT_EQ(fstat(ends[0], &sent), 0);
    EXPECT_EQ(fstat(first.file.get(), &got), 0);
    EXPECT_EQ(sent.st_ino, got.st_ino);
  }
  const Passed second = receive_descriptor(ends[1]);
  EXPECT_TRUE(second.has_byte);
  EXPECT_FALSE(second.file.is_open());
  close(ends[0]);
  EXPECT_FALSE(receive_descriptor(ends[1]).has_byte);
  close(ends[1]);
}

TEST(PassDescriptor, AnEndedSocketTakesNone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  close(ends[1]);
  EXPECT_FALSE(send_descriptor(ends[0], ends[0]));
  close(ends[0]);
}

}  // namespace
}  // namespace dlaunch::internal
