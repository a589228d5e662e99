#include "launcher/commands/innermost_frames.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Frames = std::vector<std::string>;

TEST(InnermostFrames, OfPySpyAreThoseOfItsMainThread) {
  constexpr std::string_view text =
      "Process 4711: python3 train.py\n"
      "Python v3.11.7 (/usr/bin/python3.11)\n\n"
      "Thread 4712 (idle): \"pin memory\"\n"
      "    wait (threading.py:331)\n"
      "Thread 4711 (idle): \"MainThread\"\n"
      "    all_reduce (torch/distributed/distributed_c10d.py:3051)\n"
      "    wrapper (torch/distributed/c10d_logger.py:81)\n"
      "    step (train (2)/model.py:14)\n"
      "    <module> (train.py:20)\n"
      "    beyond (the.py:5)\n";
  EXPECT_EQ(frames_of_py_spy(text),
            (Frames{"all_reduce (distributed_c10d.py:3051)", "wrapper (c10d_logger.py:81)",
                    "step (model.py:14)", "<module> (train.py:20)"}));
  EXPECT_EQ(frames_of_py_spy("Error: Permission denied\n"), Frames{});
}

TEST(InnermostFrames, OfGdbAreThoseOfItsFirstThread) {
  constexpr std::string_view text =
      "Thread 1 (Thread 0x7f00 (LWP 4711) \"train\"):\n"
      "#0  0x00007f1c in __poll (fds=..., nfds=..., timeout=...) at poll.c:29\n"
      "#1  main (argc=..., argv=...) at train.cpp:9\n\n"
      "Thread 2 (Thread 0x7f01 (LWP 4712)):\n"
      "#0  0x00007f1c in other () from /lib/libc.so.6\n";
  EXPECT_EQ(frames_of_gdb(text), (Frames{"__poll", "main"}));
  EXPECT_EQ(frames_of_gdb("ptrace: Operation not permitted.\n"), Frames{});
  EXPECT_EQ(frames_of_gdb("#\n#0\n"), Frames{});
}

TEST(InnermostFrames, ALongNameIsCut) {
  const std::string text = "Thread 1 (idle): \"MainThread\"\n    " + std::string(5000, 'x') + "\n";
  ASSERT_EQ(frames_of_py_spy(text).size(), 1U);
  EXPECT_EQ(frames_of_py_spy(text)[0].size(), 100U);
}

}  // namespace
}  // namespace dlaunch::launcher
