#include "store/base/header_text.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(HeaderText, OnlyLettersOfAsciiChangeTheirCase) {
  EXPECT_EQ(lower_case("Host-AZ@[`{09"), "host-az@[`{09");
  EXPECT_EQ(lower_case("\xc3\x84"), "\xc3\x84");
}

TEST(HeaderText, BlanksAroundAValueAreIgnored) {
  EXPECT_EQ(trimmed(" \t a b\t \r"), "a b");
  EXPECT_EQ(trimmed("a"), "a");
  EXPECT_EQ(trimmed(" \t\r"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("\ra"), "\ra") << "a line's end is not at its beginning";
}

}  // namespace
}  // namespace dlaunch::store
