#include "store/base/wheel_folders.h"

#include <gtest/gtest.h>

#include "tests/launcher/topology/made_machine.h"

namespace dlaunch::store {
namespace {

using launcher::MadeMachine;

TEST(WheelFolders, AreThoseOfThePythonsThatTheEnvironmentNames) {
  MadeMachine machine;
  for (const char* const file :
       {"/venv/lib/python3.12/site-packages/nvidia/nccl/lib/libnccl.so.2",
        "/venv/lib/python3.12/site-packages/numpy/x", "/conda/lib/python3.9/dist-packages/nvidia/x",
        "/conda/lib/perl/site-packages/nvidia/x"})
    machine.add(file);
  const VariableLookup environment = [&](std::string_view name) -> std::optional<std::string> {
    if (name == "VIRTUAL_ENV") return machine.root() + "/venv";
    if (name == "CONDA_PREFIX") return machine.root() + "/conda";
    return std::nullopt;
  };
  EXPECT_EQ(nvidia_wheel_folders(environment),
            (std::vector<std::string>{machine.root() + "/conda/lib/python3.9/dist-packages/nvidia",
                                      machine.root() + "/venv/lib/python3.12/site-packages/nvidia"}));
  EXPECT_TRUE(nvidia_wheel_folders([](std::string_view) { return std::optional<std::string>(); }).empty());
}

}  // namespace
}  // namespace dlaunch::store
