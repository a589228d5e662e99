#include "launcher/machine/program_output.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>

#include "store/client/steady_time.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::launcher {
namespace {

constexpr std::size_t much = 1 << 20;

TimePoint late() { return steady_now() + std::chrono::minutes(1); }

TEST(ProgramOutput, IsThatOfBothStreams) {
  const auto output =
      output_of({"sh", "-c", "echo out; echo err >&2; read line || echo no input"}, late(), much);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(*output, "out\nerr\nno input\n");
}

TEST(ProgramOutput, EndsAtItsMostAndStopsTheProgram) {
  const auto output = output_of({"yes"}, late(), 10);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(*output, "y\ny\ny\ny\ny\n");
}

TEST(ProgramOutput, AtTheDeadlineTheProgramIsStopped) {
  const auto output = output_of({"sleep", "1000"}, steady_now() + std::chrono::milliseconds(50), much);
  ASSERT_TRUE(output.ok());
  EXPECT_EQ(*output, "");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "it still runs";
  EXPECT_EQ(errno, ECHILD);
}

TEST(ProgramOutput, AProgramThatCannotBeStartedIsAnError) {
  const auto output = output_of({"./no-such-program"}, late(), much);
  ASSERT_FALSE(output.ok());
  EXPECT_EQ(output.error().message(), "cannot run ./no-such-program: No such file or directory");
}

TEST(FindOnPath, TakesTheFirstThatCanBeExecuted) {
  const test::Variable path("PATH", "/no/such/folder:/usr/bin:/bin");
  EXPECT_EQ(find_on_path("env"), "/usr/bin/env");
  EXPECT_EQ(find_on_path("no-such-program"), "");
  path.set("");
  EXPECT_EQ(find_on_path("no-such-program"), "");
  path.set(nullptr);
  EXPECT_EQ(find_on_path("env"), "/usr/bin/env");
}

}  // namespace
}  // namespace dlaunch::launcher
