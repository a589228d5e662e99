#include "store/protocol/decimal.h"

#include <gtest/gtest.h>

#include <limits>

namespace dlaunch::store {
namespace {

TEST(Decimal, ReadsAsStrtollDoes) {
  EXPECT_EQ(leading_decimal("0"), 0);
  EXPECT_EQ(leading_decimal("-2"), -2);
  EXPECT_EQ(leading_decimal("+3"), 3);
  EXPECT_EQ(leading_decimal(" \t\n7x"), 7);
  EXPECT_EQ(leading_decimal("007"), 7);
  EXPECT_EQ(leading_decimal("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(leading_decimal("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
}

TEST(Decimal, KnowsWhatIsNone) {
  for (const char* text :
       {"", " ", "x7", "+-7", "-", "+", "- 7", "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(leading_decimal(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(Decimal, WrapsAround) {
  EXPECT_EQ(wrapping_add(std::numeric_limits<std::int64_t>::max(), 1),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(wrapping_add(std::numeric_limits<std::int64_t>::min(), -1),
            std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace dlaunch::store
