#include "launcher/doctor/finding.h"

#include <gtest/gtest.h>

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

TEST(Finding, LinesHaveGradeTextAndRemedy) {
  EXPECT_EQ(
      describe({{Grade::ok, "a is well", ""}, {Grade::note, "b is odd", "do this"}, {Grade::bad, "c", ""}}),
      "ok    a is well\n"
      "note  b is odd: do this\n"
      "BAD   c\n");
  EXPECT_EQ(describe({}), "");
}

TEST(Finding, OnlyBadOnesCount) {
  EXPECT_FALSE(any_is_bad({{Grade::ok, "a", ""}, {Grade::note, "b", ""}}));
  EXPECT_TRUE(any_is_bad({{Grade::ok, "a", ""}, {Grade::bad, "b", ""}, {Grade::note, "c", ""}}));
}

}  // namespace
}  // namespace dlaunch::launcher
