#include "store/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace dlaunch::store {
namespace {

TEST(Number, ReadsWholeNumbers) {
  EXPECT_EQ(parse_number<int>("0"), 0);
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<std::uint64_t>("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_number<std::uint64_t>("fF", 16), 255U);
  EXPECT_EQ(parse_number<int>("007"), 7);
}

TEST(Number, RejectsAnythingElse) {
  for (const char* text : {"", " 1", "1 ", "1\n", "+1", "-", "1.5", "1e3", "0x10", "abc", "12a"})
    EXPECT_FALSE(parse_number<int>(text)) << text;
}

TEST(Number, RejectsWhatTheTypeCannotHold) {
  EXPECT_FALSE(parse_number<std::int32_t>("2147483648"));
  EXPECT_FALSE(parse_number<std::uint16_t>("65536"));
  EXPECT_FALSE(parse_number<std::uint64_t>("-1"));
}

}  // namespace
}  // namespace dlaunch::store
