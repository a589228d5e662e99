// Whether an object was made in this process or in the one that it was forked from.

#include "runtime/base/own_process.h"

#include <gtest/gtest.h>

#include "tests/runtime/forked_copies.h"

namespace dlaunch::internal {
namespace {

using test::exit_code_of_copy;

TEST(OwnProcess, IsNotThatOfACopy) {
  const OwnProcess original;
  EXPECT_TRUE(original.is_this());
  EXPECT_EQ(exit_code_of_copy([&] { return original.is_this() ? 1 : 0; }), 0);
  EXPECT_TRUE(original.is_this());  // the original does not change by forking
}

TEST(OwnProcess, ACopyHasObjectsOfItsOwn) {
  const OwnProcess original;
  EXPECT_EQ(exit_code_of_copy([&] {
              const OwnProcess own;
              const OwnProcess same = own;
              return own.is_this() && same.is_this() && !original.is_this() ? 0 : 1;
            }),
            0);
}

// A copy of a copy has the copy's objects, and not its threads.
TEST(OwnProcess, IsNotThatOfACopyOfACopy) {
  const OwnProcess original;
  EXPECT_EQ(exit_code_of_copy([&] {
              const OwnProcess between;
              return exit_code_of_copy([&] { return between.is_this() || original.is_this() ? 1 : 0; });
            }),
            0);
}

}  // namespace
}  // namespace dlaunch::internal
