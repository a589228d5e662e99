#include "agent/observe/stderr_hints.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/agent/observe/exited.h"

namespace dlaunch::agent {
namespace {

constexpr ExitStatus aborted{ExitStatus::How::signaled, SIGABRT, false};

constexpr const char* thrown =
    "step 7\nterminate called after throwing an instance of 'std::runtime_error'\n"
    "  what():  tokenizer: vocabulary has 31998 entries\n  and a second line";

TEST(StderrHints, UncaughtException) {
  EXPECT_EQ(hint_from_output(thrown, aborted), "std::runtime_error: tokenizer: vocabulary has 31998 entries");
  EXPECT_EQ(hint_from_output(thrown, exited(134)),
            "std::runtime_error: tokenizer: vocabulary has 31998 entries");
  EXPECT_EQ(hint_from_output("terminate called after throwing an instance of 'int'", aborted),
            "uncaught exception of type int");
}

TEST(StderrHints, AnExceptionThatDoesNotMatchTheExitIsIgnored) {
  EXPECT_EQ(hint_from_output(thrown, exited(1)), "");
  EXPECT_EQ(hint_from_output("what(): ", aborted), "");
  EXPECT_EQ(hint_from_output("", aborted), "");
}

TEST(StderrHints, MissingSharedLibrary) {
  const char* const linker =
      "./probe: error while loading shared libraries: libdlaunch.so.0.1: cannot open shared object file: No "
      "such file or directory";
  EXPECT_EQ(hint_from_output(linker, exited(127)), "the shared library libdlaunch.so.0.1 was not found");
  EXPECT_EQ(missing_library(linker), "libdlaunch.so.0.1");
  EXPECT_EQ(hint_from_output(linker, exited(1)), "");
  EXPECT_EQ(hint_from_output("sh: 1: nonsense: not found", exited(127)), "");
}

TEST(StderrHints, UnprintableTextIsLeftOut) {
  EXPECT_EQ(
      hint_from_output("terminate called after throwing an instance of 'E'\n  what():  \x1b[2Jbad", aborted),
      "E: bad");
}

}  // namespace
}  // namespace dlaunch::agent
