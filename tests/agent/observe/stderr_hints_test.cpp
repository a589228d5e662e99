#include "agent/observe/stderr_hints.h"

#include <gtest/gtest.h>

#include <csignal>

#include "agent/control/loss_text.h"
#include "agent/model/last_lines.h"

namespace dlaunch::agent {
namespace {

constexpr ExitStatus aborted{ExitStatus::How::signaled, SIGABRT, false};
constexpr ExitStatus exited(int code) { return {ExitStatus::How::exited, code, false}; }

constexpr const char* thrown =
    "step 7\nterminate called after throwing an instance of 'std::runtime_error'\n"
    "  what():  tokenizer: vocabulary has 31998 entries\n  and a second line";

TEST(LastWords, UncaughtException) {
  EXPECT_EQ(hint_from_output(thrown, aborted), "std::runtime_error: tokenizer: vocabulary has 31998 entries");
  EXPECT_EQ(hint_from_output(thrown, exited(134)),
            "std::runtime_error: tokenizer: vocabulary has 31998 entries");
  EXPECT_EQ(hint_from_output("terminate called after throwing an instance of 'int'", aborted),
            "uncaught exception of type int");
}

TEST(LastWords, AnExceptionOfAnotherProcessExplainsNothing) {
  EXPECT_EQ(hint_from_output(thrown, exited(1)), "");
  EXPECT_EQ(hint_from_output("what(): ", aborted), "");
  EXPECT_EQ(hint_from_output("", aborted), "");
}

TEST(LastWords, ASharedLibraryThatIsMissing) {
  const char* const linker =
      "./probe: error while loading shared libraries: libdlaunch.so.0.1: cannot open shared object file: No "
      "such file or directory";
  EXPECT_EQ(hint_from_output(linker, exited(127)),
            "the shared library libdlaunch.so.0.1 was not found; add its folder to LD_LIBRARY_PATH, or link "
            "the program with -Wl,-rpath (ldd lists missing libraries)");
  EXPECT_EQ(hint_from_output(linker, exited(1)), "");
  EXPECT_EQ(hint_from_output("sh: 1: nonsense: not found", exited(127)), "");
}

TEST(LastWords, UnprintableTextIsLeftOut) {
  EXPECT_EQ(
      hint_from_output("terminate called after throwing an instance of 'E'\n  what():  \x1b[2Jbad", aborted),
      "E: bad");
}

TEST(LastLines, ThatStandOnTheScreenAreFound) {
  EXPECT_TRUE(are_shown("a\nb", "x\na\nb\n"));
  EXPECT_TRUE(are_shown("a\nb", "[rank 1]: a\r\n[rank 1]: b\r\ndlaunch: rank 1 exited with code 1\n"));
  EXPECT_FALSE(are_shown("a\nb", "a\nx\nb\n")) << "another's line is in between";
  EXPECT_FALSE(are_shown("a\nb", "b\na\n"));
  EXPECT_FALSE(are_shown("a\nb", "b\n")) << "the beginning has left the screen";
  EXPECT_FALSE(are_shown("", "a\n"));
  EXPECT_FALSE(are_shown("a", ""));
}

TEST(LossWords, SuggestsARemedy) {
  EXPECT_EQ(describe_loss("connection reset by peer", false, "b"), "connection reset by peer");
  EXPECT_EQ(describe_loss("no sign of life for 5 s", true, "b"),
            "no sign of life for 5 s (--node-timeout): its machine is off or does not run, or the network to "
            "it is cut; "
            "try dlaunch doctor --peer=b");
  EXPECT_TRUE(
      describe_loss("closed by the peer", false, "b").starts_with("its dlaunch ended without a word: "));
}

}  // namespace
}  // namespace dlaunch::agent
