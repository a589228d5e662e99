#include "agent/model/exit_status.h"

#include <gtest/gtest.h>

#include <csignal>

namespace dlaunch::agent {
namespace {

TEST(ExitStatus, IsDescribed) {
  using How = ExitStatus::How;
  EXPECT_EQ(describe(ExitStatus{How::exited, 3, false}), "exited with code 3");
  EXPECT_EQ(describe(ExitStatus{How::exited, 127, false}),
            "exited with code 127: a command, interpreter or shared library was not found");
  EXPECT_EQ(describe(ExitStatus{How::exited, 134, false}),
            "exited with code 134: as if by signal 6 (SIGABRT, aborted)");
  EXPECT_EQ(describe(ExitStatus{How::exited, 150, false}), "exited with code 150") << "nobody means SIGTTOU";
  EXPECT_EQ(describe(ExitStatus{How::signaled, SIGKILL, false}, "the kernel"),
            "was killed by signal 9 (SIGKILL): the kernel");
  EXPECT_EQ(describe(ExitStatus{How::signaled, SIGSEGV, true}),
            "was killed by signal 11 (SIGSEGV, segmentation fault), core dumped");
  EXPECT_EQ((ExitStatus{How::signaled, SIGKILL, false}.shell_code()), 137);
  EXPECT_TRUE((ExitStatus{How::exited, 0, false}.success()));
}

}  // namespace
}  // namespace dlaunch::agent
