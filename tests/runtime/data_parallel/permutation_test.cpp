// Orders that other programs draw from the same seed. The values are from PyTorch and Python 3.11.

#include "runtime/data_parallel/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace dlaunch::internal {
namespace {

using Order = std::vector<std::size_t>;

TEST(Permutation, IsThatOfTorch) {
  EXPECT_EQ(torch_permutation(10, 0), (Order{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(torch_permutation(10, 42), (Order{2, 6, 1, 8, 4, 5, 0, 9, 3, 7}));
  EXPECT_EQ(torch_permutation(5, 1), (Order{0, 4, 2, 3, 1}));
}

TEST(Permutation, IsThatOfPython) {
  EXPECT_EQ(python_permutation(20, 1234),
            (Order{19, 13, 4, 9, 16, 7, 6, 8, 17, 18, 5, 12, 15, 11, 10, 1, 2, 0, 3, 14}));
  EXPECT_EQ(python_permutation(10, 0), (Order{7, 8, 1, 5, 3, 4, 2, 0, 9, 6}));
  EXPECT_EQ(python_permutation(10, (std::uint64_t{1} << 40U) + 5), (Order{1, 2, 3, 6, 7, 0, 5, 4, 9, 8}));
  EXPECT_EQ(python_permutation(6, UINT64_MAX), (Order{4, 5, 3, 2, 1, 0}));
}

TEST(Permutation, HasEachNumberOnce) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 1000U}) {
    Order all(count);
    std::iota(all.begin(), all.end(), std::size_t{0});
    for (Order order : {torch_permutation(count, 7), python_permutation(count, 7)}) {
      std::ranges::sort(order);
      EXPECT_EQ(order, all);
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
