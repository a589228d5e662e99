// The values of all ranks for all.

#include "runtime/collectives/all_gather.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/runtime/collectives/sides.h"
#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::values_of;

class AllGather : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllGather, testing::Range(1, 10));

TEST_P(AllGather, CollectsBlocksOfDifferentSizes) {
  const int size = GetParam();
  for (const std::size_t base : {std::size_t{0}, std::size_t{3}, std::size_t{9000}}) {
    const auto length = [&](int rank) {
      return static_cast<std::size_t>(rank) * (base + 1);
    };  // rank 0: nothing
    for (const bool in_place : {false, true}) {
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        const int own = side.transport->rank();
        std::vector<std::vector<float>> outputs;
        outputs.reserve(static_cast<std::size_t>(size));
        for (int rank = 0; rank < size; ++rank) outputs.emplace_back(length(rank), -1.0F);
        std::vector<float> input = values_of(own, length(own));
        if (in_place) outputs[static_cast<std::size_t>(own)] = input;
        std::vector<std::span<std::byte>> places;
        places.reserve(outputs.size());
        for (auto& output : outputs) places.push_back(bytes(output));
        all_gather(side.exchange, places, in_place ? places[static_cast<std::size_t>(own)] : bytes(input));
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_TRUE(
              test::same_bits(outputs[static_cast<std::size_t>(rank)], values_of(rank, length(rank))));
        }
      }));
    }
  }
}

// Blocks of rank + 1 bytes or more: each algorithm must find every block's place by itself.
TEST_P(AllGather, AllAlgorithmsCollectTheSame) {
  using Algorithm = decltype(&all_gather);
  const int size = GetParam();
  for (const Algorithm algorithm : {&all_gather_by_ring, &all_gather_pairwise, &all_gather_by_doubling}) {
    for (const std::size_t base : {std::size_t{0}, std::size_t{1}, std::size_t{400}, std::size_t{20'000}}) {
      if (algorithm == &all_gather_by_doubling && base > 400) continue;
      const auto length = [&](int rank) { return base * static_cast<std::size_t>(rank % 3 + 1); };
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        const int own = side.transport->rank();
        std::vector<std::vector<float>> outputs;
        std::vector<std::span<std::byte>> places;
        for (int rank = 0; rank < size; ++rank) outputs.emplace_back(length(rank), -1.0F);
        for (auto& output : outputs) places.push_back(bytes(output));
        std::vector<float> input = values_of(own, length(own));
        algorithm(side.exchange, places, bytes(input));
        for (int rank = 0; rank < size; ++rank) {
          EXPECT_EQ(outputs[static_cast<std::size_t>(rank)], values_of(rank, length(rank))) << base;
        }
      }));
    }
  }
}
}  // namespace
}  // namespace dlaunch::internal
