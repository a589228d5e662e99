// Variables of this process's environment.

#include "runtime/base/process_environment.h"

#include <gtest/gtest.h>

#include <string_view>

#include "tests/runtime/api/variable.h"

namespace dlaunch::internal {
namespace {

TEST(ProcessEnvironment, AnEmptyVariableIsSet) {
  constexpr const char* name = "DLAUNCH_PROCESS_ENVIRONMENT_TEST";
  EXPECT_EQ(process_environment(name), std::nullopt);
  {
    const test::Variable empty(name, "");
    EXPECT_EQ(process_environment(name), "");
  }
  const test::Variable set(name, "a=b");
  EXPECT_EQ(process_environment(name), "a=b");
  // The name is a view, which need not end where its text ends.
  EXPECT_EQ(process_environment(std::string_view("DLAUNCH_PROCESS_ENVIRONMENT_TEST_OF").substr(0, 32)),
            "a=b");
}

}  // namespace
}  // namespace dlaunch::internal
