#include "launcher/commands/debugger_output.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

TEST(DebuggerOutput, OnlyStacksOfGdbAreShown) {
  EXPECT_EQ(
      stacks_in("[New LWP 12]\n[Thread debugging using libthread_db enabled]\n"
                "0x00007f in poll () from /lib/libc.so.6\n\n"
                "Thread 1 (Thread 0x7f (LWP 11) \"train\"):\n#0  0x00007f in poll ()\n#1  main () at "
                "train.cpp:41\n\n"
                "Thread 2 (Thread 0x7e (LWP 12) \"train\"):\n#0  0x00007e in futex ()\n"
                "[Inferior 1 (process 11) detached]\n"),
      "Thread 1 (Thread 0x7f (LWP 11) \"train\"):\n#0  0x00007f in poll ()\n#1  main () at train.cpp:41\n\n"
      "Thread 2 (Thread 0x7e (LWP 12) \"train\"):\n#0  0x00007e in futex ()\n");
  EXPECT_EQ(stacks_in("ptrace: Operation not permitted.\n"), "ptrace: Operation not permitted.\n");
  EXPECT_EQ(stacks_in(""), "");
}

TEST(DebuggerOutput, MissingDebuggerIsReported) {
  EXPECT_EQ(advice_on_stacks(false, {}, ""),
            "no stacks: gdb is not installed (apt install gdb, or dnf install gdb)");
  EXPECT_EQ(advice_on_stacks(false, {.gdb = true}, "Thread 1"), "");
  EXPECT_EQ(advice_on_stacks(true, {}, ""), "no stacks: py-spy is not installed (pip install py-spy)");
  EXPECT_EQ(advice_on_stacks(true, {.gdb = true}, "Thread 1"),
            "Python's own frames are not shown: py-spy is not installed (pip install py-spy)");
  EXPECT_EQ(advice_on_stacks(true, {.gdb = true, .py_spy = true}, "Thread"), "");
  EXPECT_NE(advice_on_stacks(false, {.gdb = true}, "ptrace: Operation not permitted.\n").find("ptrace_scope"),
            std::string::npos);
}

}  // namespace
}  // namespace dlaunch::launcher
