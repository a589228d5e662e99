#include "agent/process/raw_syscall.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <string>

namespace dlaunch::agent {
namespace {

TEST(RawSyscall, ReturnsTheResultOrMinusErrno) {
  EXPECT_EQ(raw_syscall(SYS_getpid), getpid());
  EXPECT_EQ(raw_syscall(SYS_close, -1), -EBADF);
}

TEST(RawSyscall, KeepsErrno) {
  if (!raw_syscall_keeps_errno) GTEST_SKIP() << "not on this processor";
  errno = EXDEV;
  EXPECT_EQ(raw_syscall(SYS_close, -1), -EBADF);
  EXPECT_EQ(errno, EXDEV);
}

TEST(RawSyscall, PassesUpToFiveArguments) {
  char name[16] = "a name";
  EXPECT_EQ(raw_syscall(SYS_prctl, PR_SET_NAME, name, 0, 0, 0), 0);
  char now[16] = "";
  EXPECT_EQ(prctl(PR_GET_NAME, now), 0);
  EXPECT_STREQ(now, "a name");
  const int made = static_cast<int>(raw_syscall(SYS_memfd_create, name, MFD_CLOEXEC));
  ASSERT_GE(made, 0);
  EXPECT_EQ(raw_syscall(SYS_pwrite64, made, "bytes", 3, 2), 3) << "the fourth";
  // The fifth: the link is not followed.
  struct stat about {};
  const std::string link = "/proc/self/fd/" + std::to_string(made);
  EXPECT_EQ(raw_syscall(SYS_statx, AT_FDCWD, link.c_str(), AT_SYMLINK_NOFOLLOW, 0, nullptr), -EFAULT);
  EXPECT_EQ(fstat(made, &about), 0);
  EXPECT_EQ(about.st_size, 5);
  close(made);
}

}  // namespace
}  // namespace dlaunch::agent
