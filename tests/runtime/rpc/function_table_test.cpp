// Functions by name and by pointer.

#include "runtime/rpc/function_table.h"

#include <gtest/gtest.h>

namespace dlaunch::internal {
namespace {

TEST(FunctionTable, FindsByNameAndByPointer) {
  FunctionTable table;
  EXPECT_EQ(table.find("add"), nullptr);
  EXPECT_EQ(table.name_of("pointer"), std::nullopt);
  table.add("add", {42, "pointer", {}});
  ASSERT_NE(table.find("add"), nullptr);
  EXPECT_EQ(table.find("add")->signature, 42U);
  EXPECT_EQ(table.name_of("pointer"), "add");
}

TEST(FunctionTable, OneNameForTwoFunctionsIsAConflict) {
  FunctionTable table;
  table.add("add", {42, "pointer", {}});
  table.add("add", {42, "pointer", {}});  // the same once more, as from a header
  EXPECT_EQ(table.conflict(), "");
  table.add("add", {42, "another", {}});
  EXPECT_EQ(table.conflict(), "add");
  EXPECT_EQ(table.name_of("another"), std::nullopt);
}

}  // namespace
}  // namespace dlaunch::internal
