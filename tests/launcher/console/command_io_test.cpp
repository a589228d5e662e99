#include "launcher/console/command_io.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/launcher/own_process.h"

namespace dlaunch::launcher {
namespace {

TEST(CommandIo, TextGoesToStdoutAsItIs) {
  const auto ran = test::in_own_process([] { return print("a\n") + print("b"); });
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.printed, "a\nb");
}

TEST(CommandIo, OutputThatCannotBeWrittenIsAFailure) {
  const auto ran = test::in_own_process([] {
    close(STDOUT_FILENO);
    return print("a\n");
  });
  EXPECT_EQ(ran.code, exit_error);
  EXPECT_EQ(ran.printed, "dlaunch: cannot write to standard output\n");
}

TEST(CommandIo, AMistakeOfTheUserHasAnExitCodeOfItsOwn) {
  const auto code = [](ErrorKind kind) {
    return test::in_own_process([kind] { return fail(Error{kind, "cannot", "x", "why", "do this"}); });
  };
  EXPECT_EQ(code(ErrorKind::invalid).code, exit_usage);
  EXPECT_EQ(code(ErrorKind::io).code, exit_error);
  EXPECT_EQ(code(ErrorKind::io).printed, "dlaunch: cannot x: why; do this\n");
}

}  // namespace
}  // namespace dlaunch::launcher
