// Each rank gets its part of the reduction.

#include "runtime/collectives/reduce_scatter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/reduce/reduce.h"
#include "tests/runtime/collectives/sides.h"
#include "tests/runtime/collectives/values.h"
#include "tests/runtime/slowness.h"

namespace dlaunch::internal {
namespace {

using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::sum_of_all;
using test::values_of;

class ReduceScatter : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ReduceScatter, testing::Range(1, 10));

// The longest block determines the number of segments of all: those of the others fill the eager channel
// several times.
TEST_P(ReduceScatter, OfOneLongBlockAndShortOnes) {
  const int size = GetParam();
  for (const std::size_t others : {0U, 100U, 100'000U}) {
    const auto length = [&](int rank) {
      return rank == 0 ? std::size_t{2'400'001} / test::slowness : others;
    };
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      std::vector<std::vector<float>> blocks;
      for (int rank = 0; rank < size; ++rank) blocks.push_back(values_of(own, length(rank)));
      std::vector<std::span<const std::byte>> inputs;
      for (auto& block : blocks) inputs.push_back(bytes(block));
      std::vector<float> output(length(own));
      reduce_scatter(side.exchange, bytes(output), inputs, DType::float32, {});
      EXPECT_TRUE(test::same_bits(output, sum_of_all(size, length(own))));
    }));
  }
}

struct Blocks {
  std::vector<std::vector<float>> values;
  std::vector<std::span<const std::byte>> inputs;
};

// One block for each rank, of so many elements.
Blocks blocks_of(int rank, int size, const std::function<std::size_t(int)>& length) {
  Blocks blocks;
  for (int to = 0; to < size; ++to) blocks.values.push_back(values_of(rank + to, length(to)));
  for (auto& block : blocks.values) blocks.inputs.push_back(bytes(block));
  return blocks;
}

std::vector<float> reduced(int rank, int size, std::size_t count, float factor) {
  std::vector<float> sum(count);
  for (int from = 0; from < size; ++from) {
    const std::vector<float> values = values_of(from + rank, count);
    for (std::size_t i = 0; i < count; ++i) sum[i] += values[i] * factor;
  }
  return sum;
}

// With a factor, which must not change the inputs; in place, too.
TEST_P(ReduceScatter, BothAlgorithmsAddTheSameAndLeaveTheInputs) {
  using Algorithm = decltype(&reduce_scatter_pairwise);
  const int size = GetParam();
  if (size == 1) return;  // neither is used then
  const Algorithm algorithms[] = {&reduce_scatter_pairwise, &reduce_scatter_by_ring};
  for (const Algorithm algorithm : algorithms) {
    for (const std::size_t base : {std::size_t{0}, std::size_t{1}, std::size_t{700}, std::size_t{2700}}) {
      const auto length = [&](int rank) { return base * static_cast<std::size_t>(rank % 3 + 1); };
      for (const bool in_place : {false, true}) {
        expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
          Side side(std::move(transport));
          const int own = side.transport->rank();
          const auto place = static_cast<std::size_t>(own);
          Blocks blocks = blocks_of(own, size, length);
          std::vector<float> apart(length(own));
          std::vector<float>& output = in_place ? blocks.values[place] : apart;
          algorithm(side.exchange, bytes(output), blocks.inputs, DType::float32, {ReduceOp::premul_sum, 2.0});
          EXPECT_EQ(output, reduced(own, size, length(own), 2.0F)) << base;
          for (int to = 0; to < size; ++to) {
            if (in_place && to == own) continue;
            EXPECT_EQ(blocks.values[static_cast<std::size_t>(to)], values_of(own + to, length(to))) << base;
          }
        }));
      }
    }
  }
}

TEST_P(ReduceScatter, AveragesIntegersWithoutOverflow) {
  const int size = GetParam();
  for (const std::size_t count : {std::size_t{3}, std::size_t{20'000}}) {
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      const auto value = [](int rank) { return static_cast<std::int8_t>(90 + rank); };
      std::vector<std::vector<std::int8_t>> blocks;
      std::vector<std::span<const std::byte>> inputs;
      for (int to = 0; to < size; ++to) blocks.emplace_back(count, value(to));
      for (auto& block : blocks) inputs.push_back(bytes(block));
      std::vector<std::int8_t> output(count);
      reduce_scatter(side.exchange, bytes(output), inputs, DType::int8, {ReduceOp::avg, 1.0});
      EXPECT_EQ(output, std::vector<std::int8_t>(count, value(own)));
    }));
  }
}
}  // namespace
}  // namespace dlaunch::internal
