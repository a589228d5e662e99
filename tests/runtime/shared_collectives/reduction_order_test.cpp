#include "runtime/shared_collectives/reduction_order.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace dlaunch::internal {
namespace {

// An operation whose result shows the order: the digits of `low`, then those of `high`, in brackets' place a
// 0.
void join(std::byte* out, const std::byte* low, const std::byte* high, std::size_t count) {
  for (std::size_t i = 0; i < count * sizeof(std::uint64_t); i += sizeof(std::uint64_t)) {
    std::uint64_t a = 0;
    std::uint64_t b = 0;
    std::memcpy(&a, low + i, sizeof a);
    std::memcpy(&b, high + i, sizeof b);
    std::uint64_t shift = 10;
    while (shift <= b) shift *= 10;
    a = (a * shift + b) * 10;
    std::memcpy(out + i, &a, sizeof a);
  }
}

std::uint64_t result_of(const ReductionOrder& order, std::size_t ranks) {
  std::vector<std::uint64_t> values;
  std::vector<const std::byte*> places;
  for (std::size_t rank = 0; rank < ranks; ++rank) values.push_back(rank + 1);
  for (const std::uint64_t& value : values) places.push_back(reinterpret_cast<const std::byte*>(&value));
  std::uint64_t out = 0;
  order.run(join, sizeof out, places, reinterpret_cast<std::byte*>(&out), 1);
  return out;
}

TEST(ReductionOrder, ChainGoesRoundTheRingFromTheFirst) {
  EXPECT_EQ(result_of(ReductionOrder::chain(4, 0), 4), 1203040U);
  EXPECT_EQ(result_of(ReductionOrder::chain(4, 3), 4), 4102030U);
}

TEST(ReductionOrder, DoublingCombinesNeighboursThenPairs) {
  EXPECT_EQ(result_of(ReductionOrder::doubling(2), 2), 120U);
  EXPECT_EQ(result_of(ReductionOrder::doubling(4), 4), 1203400U);
  EXPECT_EQ(result_of(ReductionOrder::doubling(3), 3), 12030U);
}

TEST(ReductionOrder, HalvingCombinesTheFarthestFirst) {
  EXPECT_EQ(result_of(ReductionOrder::halving(4), 4), 1302400U);
}

TEST(ReductionOrder, BinomialAddsTheChildrenOfTheRoot) {
  EXPECT_EQ(result_of(ReductionOrder::binomial(4, 0), 4), 1203400U);
  EXPECT_EQ(result_of(ReductionOrder::binomial(4, 1), 4), 2304100U);
}

}  // namespace
}  // namespace dlaunch::internal
