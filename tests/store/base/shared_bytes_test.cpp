#include "store/base/shared_bytes.h"

#include <gtest/gtest.h>

namespace dlaunch::store {
namespace {

TEST(SharedBytes, AnOwnerThatChangesThemGetsItsOwnCopy) {
  SharedBytes one("abc");
  const SharedBytes two = one;
  EXPECT_TRUE(one.is_shared());
  EXPECT_EQ(one.view().data(), two.view().data()) << "one copy";
  one.append("d");
  EXPECT_EQ(one.view(), "abcd");
  EXPECT_EQ(two.view(), "abc");
  EXPECT_FALSE(one.is_shared() || two.is_shared());
  SharedBytes three = two;
  three.assign("x");
  EXPECT_EQ(two.view(), "abc");
}

TEST(SharedBytes, OnesThatAreNotSharedChangeInPlace) {
  SharedBytes one(std::string(100, 'a'));
  const char* place = one.view().data();
  one.assign("short");
  EXPECT_EQ(one.view().data(), place);
  EXPECT_EQ(one.view(), "short");
}

TEST(SharedBytes, AShortValueDoesNotKeepALongOnesMemory) {
  SharedBytes one(std::string(1 << 20, 'a'));
  const char* place = one.view().data();
  one.assign("short");
  EXPECT_NE(one.view().data(), place);
}

TEST(SharedBytes, EmptyOnesCanBeChanged) {
  SharedBytes none;
  EXPECT_EQ(none.size(), 0U);
  EXPECT_FALSE(none.is_shared());
  none.append("a");
  none.append("b");
  EXPECT_EQ(none.view(), "ab");
}

TEST(SharedBytes, CountUntilTheLastOwnerIsGone) {
  const auto total = std::make_shared<std::uint64_t>(0);
  {
    SharedBytes one("abcdef");
    EXPECT_EQ(one.counted_part(), 0U);
    one.count_in(total);
    EXPECT_EQ(*total, 6U);
    EXPECT_EQ(one.counted_part(), 6U);
    {
      const SharedBytes two = one;
      EXPECT_EQ(*total, 6U) << "once";
      EXPECT_EQ(one.counted_part() + two.counted_part(), 6U);
    }
    EXPECT_EQ(one.counted_part(), 6U);
  }
  EXPECT_EQ(*total, 0U);
}

}  // namespace
}  // namespace dlaunch::store
