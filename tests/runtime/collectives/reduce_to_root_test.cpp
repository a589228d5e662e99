// One rank gets the reduction; the values of the others stay.

#include "runtime/collectives/reduce_to_root.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/reduce/reduce.h"
#include "tests/runtime/collectives/sides.h"
#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::all_dtypes;
using test::all_ops;
using test::bytes;
using test::expect_success;
using test::on_ranks;
using test::Side;
using test::sum_of_all;
using test::values_of;
using test::with_type;

class ReduceToRoot : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, ReduceToRoot, testing::Range(1, 10));

// Lengths in floats, for the tree, and for the blocks that the ranks reduce (8192 floats are the limit),
// which need not be equal.
TEST_P(ReduceToRoot, AddsAtEveryRootAndLeavesTheOthers) {
  const int size = GetParam();
  for (int root = 0; root < size; ++root) {
    for (const std::size_t count : {0U, 1U, 100U, 8192U, 8193U, 50'003U}) {
      expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        const int own = side.transport->rank();
        std::vector<float> values = values_of(own, count);
        reduce_to_root(side.exchange, bytes(values), DType::float32, {}, root);
        EXPECT_EQ(values, own == root ? sum_of_all(size, count) : values_of(own, count))
            << root << ' ' << count;
      }));
    }
  }
}

// More segments than are under way at a time.
TEST(ReduceToRootOfTwo, AddsInSegments) {
  constexpr std::size_t count = 900'001;
  for (int root = 0; root < 2; ++root) {
    expect_success(on_ranks(2, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int own = side.transport->rank();
      std::vector<float> values = values_of(own, count);
      reduce_to_root(side.exchange, bytes(values), DType::float32, {}, root);
      EXPECT_TRUE(values == (own == root ? sum_of_all(2, count) : values_of(own, count))) << root;
    }));
  }
}

TEST_P(ReduceToRoot, KnowsEveryTypeAndOperation) {
  const int size = GetParam();
  const int root = size / 2;
  for (const std::size_t count : {std::size_t{37}, std::size_t{40'000}}) {
    for (const DType dtype : all_dtypes) {
      for (const ReduceOp op : all_ops) {
        // Both ways for the types of one byte; the long way is that of reduce_scatter.
        if (why_not_allowed(dtype, op) || (count > 37 && size_of(dtype) > 1)) continue;
        const auto input = [&](int rank) {
          std::vector<std::byte> raw(count * size_of(dtype));
          with_type(dtype, [&]<class T>(T*) {
            for (std::size_t i = 0; i < count; ++i) {
              int number = static_cast<int>((i + static_cast<std::size_t>(rank)) % 2);
              if (op == ReduceOp::avg) number *= size;
              const T value = test::to_value<T>(number);
              std::memcpy(raw.data() + i * sizeof(T), &value, sizeof value);
            }
          });
          return raw;
        };
        const Reduction reduction{op, 2.0};
        std::vector<std::vector<std::byte>> inputs;
        for (int rank = 0; rank < size; ++rank) inputs.push_back(input(rank));
        const std::vector<std::byte> wanted = test::reduction_of(inputs, dtype, reduction);
        expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
          Side side(std::move(transport));
          const int own = side.transport->rank();
          std::vector<std::byte> values = input(own);
          reduce_to_root(side.exchange, values, dtype, reduction, root);
          EXPECT_EQ(values, own == root ? wanted : input(own)) << to_string(op) << " of " << to_string(dtype);
        }));
      }
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
