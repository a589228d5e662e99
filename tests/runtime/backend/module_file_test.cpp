// Symbols of modules beside the library.

#include "runtime/backend/module_file.h"

#include <gtest/gtest.h>

#include <string>

#include "dlaunch/backend.h"
#include "dlaunch/error.h"
#include "tests/runtime/api/error_strings.h"
#include "tests/runtime/api/variable.h"

namespace dlaunch::internal {
namespace {

constexpr const char* symbol = "dlaunch_backend_module";

std::string error_for(const char* file, const char* name = symbol) {
  try {
    (void)find_in_module(file, name, "it does not work");
  } catch (const DistStoreError& e) {
    return e.what();
  }
  return "no error";
}

TEST(ModuleFile, IsFoundInTheFirstFolderThatHasTheSymbol) {
  const test::Variable path("DLAUNCH_BACKEND_PATH", "/nonexistent:" TEST_MODULES_DIR);
  const auto* const module =
      static_cast<const BackendModule*>(find_in_module("backend_example.so", symbol, "x"));
  EXPECT_STREQ(module->name, "example");
  // It stays loaded: the symbol stays where it is.
  EXPECT_EQ(find_in_module("backend_example.so", symbol, "x"), module);
}

TEST(ModuleFile, IsAnErrorWithTheReasonOtherwise) {
  const test::Variable path("DLAUNCH_BACKEND_PATH", TEST_MODULES_DIR);
  const std::string missing = error_for("no_such_module.so");
  EXPECT_TRUE(missing.starts_with("it does not work: the module no_such_module.so cannot be loaded: "))
      << missing;
  EXPECT_TRUE(test::contains(missing, "No such file or directory")) << missing;
  // The next folder has no such file, which must not hide that this one has it.
  const std::string other = error_for("backend_example.so", "no_such_symbol");
  EXPECT_TRUE(test::contains(other, TEST_MODULES_DIR "/backend_example.so does not export no_such_symbol"))
      << other;
}

}  // namespace
}  // namespace dlaunch::internal
