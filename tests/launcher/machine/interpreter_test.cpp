#include "launcher/machine/interpreter.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/launcher/topology/made_machine.h"

namespace dlaunch::launcher {
namespace {

TEST(Interpreter, IsThatOfTheVirtualEnvironment) {
  MadeMachine machine;
  const std::string here = machine.root();
  EXPECT_EQ(python_interpreter({}, "/usr/bin/dlaunch"), "python3");
  machine.add_program("/installed/bin/python3");
  const std::string own = here + "/installed/bin/dlaunch";
  EXPECT_EQ(python_interpreter({}, own), "python3")
      << "a folder with a python3 is no virtual environment yet";
  machine.add("/installed/pyvenv.cfg");
  EXPECT_EQ(python_interpreter({}, own), here + "/installed/bin/python3");
  EXPECT_EQ(python_interpreter({}, here + "/installed/lib/dlaunch/dlaunch"), here + "/installed/bin/python3");
  machine.add_program("/active/bin/python3");
  EXPECT_EQ(python_interpreter({{"VIRTUAL_ENV", here + "/active"}}, own), here + "/active/bin/python3");
  EXPECT_EQ(python_interpreter({{"VIRTUAL_ENV", here + "/removed"}}, own), here + "/installed/bin/python3");
  EXPECT_EQ(python_interpreter({{"VIRTUAL_ENV", here + "/active"}, {"PYTHON_EXEC", "pypy"}}, own), "pypy");
}

TEST(Interpreter, MustBeAProgram) {
  MadeMachine machine;
  const EnvironmentMap active{{"VIRTUAL_ENV", machine.root()}};
  machine.add("/bin/python3");
  EXPECT_EQ(python_interpreter(active, ""), "python3") << "a file without the right to execute it";
  std::filesystem::remove(machine.root() + "/bin/python3");
  machine.add("/bin/python3/x");
  EXPECT_EQ(python_interpreter(active, ""), "python3") << "a folder";
}

TEST(Interpreter, AnEmptyVariableIsNone) {
  EXPECT_EQ(python_interpreter({{"PYTHON_EXEC", ""}, {"VIRTUAL_ENV", ""}}, ""), "python3");
}

TEST(Interpreter, OwnPathIsThatOfThisProgram) {
  EXPECT_TRUE(std::filesystem::path(own_path()).is_absolute()) << own_path();
  EXPECT_TRUE(std::filesystem::equivalent(own_path(), "/proc/self/exe")) << own_path();
}

}  // namespace
}  // namespace dlaunch::launcher
