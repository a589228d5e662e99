// The reduction of values that all ranks get: every algorithm, type and operation.

#include "runtime/collectives/all_reduce.h"

#include <gtest/gtest.h>

#include <bit>
#include <complex>
#include <cstring>
#include <limits>
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
using test::lengths;
using test::on_ranks;
using test::Side;
using test::sum_of_all;
using test::values_of;
using test::with_type;

class AllReduce : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, AllReduce, testing::Range(1, 10));

TEST_P(AllReduce, AddsEverything) {
  for (const std::size_t count : lengths) {
    SCOPED_TRACE(count);
    const std::vector<float> wanted = sum_of_all(GetParam(), count);
    expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      std::vector<float> values = values_of(side.transport->rank(), count);
      all_reduce(side.exchange, bytes(values), DType::float32, {});
      EXPECT_EQ(values, wanted);
    }));
  }
}

void all_reduce_by_doubling(Exchange& exchange, std::span<std::byte> values, DType dtype, ReduceOp op) {
  ShortAllReduce parts(exchange, values, dtype, {op, 1.0});
  parts.begin();
  parts.finish();
}

using Algorithm = void (*)(Exchange&, std::span<std::byte>, DType, ReduceOp);

TEST_P(AllReduce, AllAlgorithmsAddTheSame) {
  for (const Algorithm algorithm : {&all_reduce_by_doubling, &all_reduce_by_halving, &all_reduce_by_ring}) {
    if (algorithm == &all_reduce_by_halving && !std::has_single_bit(static_cast<unsigned>(GetParam())))
      continue;
    for (const std::size_t count : {0U, 1U, 2U, 5U, 8U, 9U, 100U, 8192U, 8193U, 16384U, 65536U}) {
      if (GetParam() == 1) continue;  // neither is used then
      if (algorithm == &all_reduce_by_doubling && !ShortAllReduce::suits(GetParam(), count * sizeof(float)))
        continue;
      const std::vector<float> wanted = sum_of_all(GetParam(), count);
      expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
        Side side(std::move(transport));
        std::vector<float> values = values_of(side.transport->rank(), count);
        algorithm(side.exchange, bytes(values), DType::float32, ReduceOp::sum);
        EXPECT_EQ(values, wanted) << count;
      }));
    }
  }
}

TEST_P(AllReduce, KnowsEveryTypeAndOperation) {
  const int size = GetParam();
  constexpr std::size_t count = 37;
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(dtype)));
      with_type(dtype, [&]<class T>(T*) {
        const auto input = [&](int rank) {
          std::vector<std::byte> raw(count * sizeof(T));
          for (std::size_t i = 0; i < count; ++i) {
            // Small enough that products of nine fit every type, and multiples of the
            // world size for the average.
            int number = static_cast<int>((i + static_cast<std::size_t>(rank)) % 2) +
                         (op == ReduceOp::product ? 1 : 0);
            if (dtype == DType::boolean) number %= 2;
            if (op == ReduceOp::avg) number *= size;
            const T value = test::to_value<T>(number);
            std::memcpy(raw.data() + i * sizeof(T), &value, sizeof value);
          }
          return raw;
        };
        const Reduction reduction{op, 2.0};
        std::vector<std::vector<std::byte>> inputs;
        for (int rank = 0; rank < size; ++rank) inputs.push_back(input(rank));
        const std::vector<std::byte> wanted = test::reduction_of(inputs, dtype, reduction);
        expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
          Side side(std::move(transport));
          std::vector<std::byte> values = input(side.transport->rank());
          all_reduce(side.exchange, values, dtype, reduction);
          EXPECT_EQ(values, wanted);
        }));
      });
    }
  }
}

// Values whose sum depends on the order of the additions.
TEST_P(AllReduce, GivesTheSameBitsEverywhere) {
  const int size = GetParam();
  for (const std::size_t count : {1000U, 50000U}) {
    std::vector<std::vector<float>> results(static_cast<std::size_t>(size));
    expect_success(on_ranks(size, [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      const int rank = side.transport->rank();
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] =
            (rank % 2 == 0 ? 1e6F : -1e6F) / static_cast<float>(i + 3) + static_cast<float>(rank) * 1e-3F;
      }
      values[0] = std::numeric_limits<float>::quiet_NaN();
      values[1] = rank == 0 ? 0.0F : -0.0F;
      all_reduce(side.exchange, bytes(values), DType::float32, {});
      results[static_cast<std::size_t>(rank)] = values;
    }));
    for (const auto& result : results) EXPECT_TRUE(test::same_bits(result, results[0]));
  }
}

// An average of integers is that of the numbers, though the sum of all ranks overflows the type.
TEST_P(AllReduce, AveragesIntegersWithoutOverflow) {
  for (const std::size_t count : {std::size_t{3}, std::size_t{9000}, std::size_t{200'000}}) {
    expect_success(on_ranks(GetParam(), [&](std::unique_ptr<Transport> transport) {
      Side side(std::move(transport));
      std::vector<std::int8_t> values(count, 101);
      all_reduce(side.exchange, bytes(values), DType::int8, {ReduceOp::avg, 1.0});
      EXPECT_EQ(values, std::vector<std::int8_t>(count, 101));
    }));
  }
}
}  // namespace
}  // namespace dlaunch::internal
