// Lists of ranks and names in messages.

#include "runtime/base/comma_separated.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace dlaunch::internal {
namespace {

TEST(CommaSeparated, NumbersAndTexts) {
  EXPECT_EQ(comma_separated(std::vector<int>{}), "");
  EXPECT_EQ(comma_separated(std::vector<int>{-1}), "-1");
  EXPECT_EQ(comma_separated(std::vector<std::int64_t>{0, 2, std::int64_t{1} << 40}), "0, 2, 1099511627776");
  EXPECT_EQ(comma_separated(std::vector<std::string>{"dp", "tp"}), "dp, tp");
}

std::vector<int> ranks_up_to(int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(DescribeRanks, NamesAllOfAFew) {
  EXPECT_EQ(describe_ranks({4}), "rank 4");
  EXPECT_EQ(describe_ranks({1, 4, 7}), "ranks 1, 4, 7");
  EXPECT_EQ(describe_ranks(ranks_up_to(16)), "ranks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15");
}

// A message stays readable in a job of thousands of ranks.
TEST(DescribeRanks, CountsTheRestOfMany) {
  const std::string first = describe_ranks(ranks_up_to(16));
  EXPECT_EQ(describe_ranks(ranks_up_to(17)), first + " and 1 more");
  EXPECT_EQ(describe_ranks(ranks_up_to(10'000)), first + " and 9984 more");
}

}  // namespace
}  // namespace dlaunch::internal
