// The reduction of several tensors as one call.

#include "runtime/collectives/coalesced.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/runtime/collectives/sides.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::sum_of_all;
using test::values_of;

class Coalesced : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Coalesced, testing::Range(1, 10));

// Floats in each tensor: none; short ones, which travel together; 8192 is the longest of those.
const std::vector<std::vector<std::size_t>> lists = {
    {}, {0}, {5}, {8192}, {8193}, {3, 0, 1, 8192, 7}, {8193, 2, 50'000, 8192, 8192, 8192, 0, 9000, 4}};

TEST_P(Coalesced, EachTensorIsReducedByItself) {
  for (const std::vector<std::size_t>& counts : lists) {
    expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      std::vector<std::vector<float>> tensors;
      std::vector<std::span<std::byte>> places;
      for (const std::size_t count : counts) tensors.push_back(values_of(own, count));
      for (auto& tensor : tensors) places.push_back(bytes(tensor));
      all_reduce_coalesced(side.exchange, places, DType::float32, {});
      for (std::size_t i = 0; i < counts.size(); ++i) {
        EXPECT_EQ(tensors[i], sum_of_all(GetParam(), counts[i])) << i;
      }
    }));
  }
}

// The parts of an average of integers are wider than the integers.
TEST_P(Coalesced, AveragesIntegersWithoutOverflow) {
  expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
    Side side(std::move(transport));
    std::vector<std::int8_t> one(3, 100);
    std::vector<std::int8_t> other(40'000, -100);
    const std::vector<std::span<std::byte>> places = {bytes(one), bytes(other)};
    all_reduce_coalesced(side.exchange, places, DType::int8, {ReduceOp::avg, 1.0});
    EXPECT_EQ(one, std::vector<std::int8_t>(3, 100));
    EXPECT_EQ(other, std::vector<std::int8_t>(40'000, -100));
  }));
}

}  // namespace
}  // namespace dlaunch::internal
