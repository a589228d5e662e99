// The input of a process that spawn() starts by exec. (With real processes: spawn_exec_test.cpp.)

#include "runtime/api/spawn_message.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "dlaunch/spawn.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::internal {
namespace {

using test::error_of;

TEST(SpawnMessage, IsAFileThatOtherProgramsDoNotInherit) {
  const std::string long_argument(1'000'000, '\0');
  const int fd =
      spawn_message({{.rank = 1, .size = 2, .parent = 3, .file = "/store"}, "f", {long_argument, ""}});
  EXPECT_NE(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  struct stat file {};
  ASSERT_EQ(fstat(fd, &file), 0);
  EXPECT_GT(file.st_size, 1'000'000);  // a pipe would hold less
  close(fd);
}

TEST(SpawnMessage, OwnCommandLineHasAllWords) {
  const std::vector<std::string> words = own_command_line();
  ASSERT_FALSE(words.empty());
  EXPECT_TRUE(words[0].ends_with("runtime_test")) << words[0];
  // What GoogleTest was given; it has taken its own flags out of argv.
  for (const std::string& word : words) EXPECT_EQ(word.find('\0'), std::string::npos);
}

TEST(SpawnMessage, OwnEnvironmentLacksSpawnsVariableOnly) {
  const test::Variable spawns("DLAUNCH_SPAWN", "1,2");
  const test::Variable similar("DLAUNCH_SPAWNED", "x=y");
  const std::vector<std::string> variables = own_environment();
  EXPECT_EQ(std::ranges::count(variables, "DLAUNCH_SPAWNED=x=y"), 1);
  EXPECT_TRUE(std::ranges::none_of(variables,
                                   [](const std::string& one) { return one.starts_with("DLAUNCH_SPAWN="); }));
}

TEST(RegisterSpawnFunction, NeedsAFunctionAndAFreeName) {
  EXPECT_EQ(error_of([] { register_spawn_function("none", nullptr); }),
            "register_spawn_function: 'none' is not a function");
  register_spawn_function("once", [](int, const std::vector<std::string>&) {});
  EXPECT_EQ(error_of([] { register_spawn_function("once", [](int, const std::vector<std::string>&) {}); }),
            "register_spawn_function: there is a function 'once' already");
}

TEST(RunIfSpawned, DoesNothingInAProcessThatWasNotSpawned) { run_if_spawned(); }

// The variable may be the user's.
TEST(RunIfSpawned, AnythingElseInTheVariableIsAnError) {
  for (const char* const value : {"", "3", "3,", ",4", "3,4,", "3;4", "a,b", "3, 4", "99999999999,4"}) {
    const test::Variable variable("DLAUNCH_SPAWN", value);
    EXPECT_EQ(error_of([] { run_if_spawned(); }),
              "run_if_spawned: the environment variable DLAUNCH_SPAWN: '" + std::string(value) +
                  "' is not what spawn sets");
    EXPECT_EQ(std::getenv("DLAUNCH_SPAWN"), nullptr);  // programs that this one starts must not read it
  }
}

}  // namespace
}  // namespace dlaunch::internal
