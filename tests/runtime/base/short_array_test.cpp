#include "runtime/base/short_array.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>
#include <vector>

namespace dlaunch::internal {
namespace {

using Numbers = ShortArray<int, 4>;

Numbers squares(std::size_t count) {
  return {count, [](std::size_t i) { return static_cast<int>(i * i); }};
}

std::vector<int> copied(std::span<const int> numbers) { return {numbers.begin(), numbers.end()}; }

TEST(ShortArrayTest, HasTheElementsThatWereMade) {
  EXPECT_EQ(copied(squares(0)), std::vector<int>{});
  EXPECT_EQ(copied(squares(3)), (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(copied(squares(4)), (std::vector<int>{0, 1, 4, 9}));
  EXPECT_EQ(copied(squares(6)), (std::vector<int>{0, 1, 4, 9, 16, 25}));
}

TEST(ShortArrayTest, OfALengthAloneIsZeros) {
  for (const std::size_t count : {std::size_t{0}, std::size_t{4}, std::size_t{6}})
    EXPECT_EQ(copied(Numbers(count)), std::vector<int>(count));
}

TEST(ShortArrayTest, MakesThemInOrderOnce) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{7}}) {
    std::vector<std::size_t> made;
    const Numbers numbers(count, [&](std::size_t i) {
      made.push_back(i);
      return 0;
    });
    ASSERT_EQ(made.size(), count);
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(made[i], i);
  }
}

TEST(ShortArrayTest, CopyIsItsOwn) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{5}}) {
    Numbers original = squares(count);
    Numbers copy = original;
    copy[1] = 100;
    EXPECT_EQ(original[1], 1);
    EXPECT_EQ(copy[1], 100);
    original = copy;
    EXPECT_EQ(original[1], 100);
    EXPECT_EQ(original.size(), count);
  }
}

TEST(ShortArrayTest, FewElementsLieInIt) {
  const Numbers few = squares(4);
  const auto* const begin = reinterpret_cast<const std::byte*>(&few);
  const auto* const element = reinterpret_cast<const std::byte*>(few.data());
  EXPECT_GE(element, begin);
  EXPECT_LT(element, begin + sizeof few);
}

}  // namespace
}  // namespace dlaunch::internal
