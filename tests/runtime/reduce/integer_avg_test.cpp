// The average of integers, which is exact though their sum overflows.

#include "runtime/reduce/integer_avg.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::all_dtypes;

// The average of one value of each rank.
template <class T>
T mean(const std::vector<T>& values) {
  const int ranks = static_cast<int>(values.size());
  std::vector<std::int64_t> sum;
  for (const T& value : values) {
    const auto parts = avg_parts(std::as_bytes(std::span(&value, 1)), dtype_of<T>(), ranks);
    sum.resize(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) sum[i] += parts[i];
  }
  T result{};
  store_avg(std::as_writable_bytes(std::span(&result, 1)), dtype_of<T>(), sum, ranks);
  return result;
}

TEST(IntegerAvg, IsOfIntegers) {
  for (const DType dtype : all_dtypes) {
    EXPECT_FALSE(is_integer_avg(dtype, {ReduceOp::sum, 1.0}));
    const bool wanted = dtype == DType::int8 || dtype == DType::int16 || dtype == DType::int32 ||
                        dtype == DType::int64 || dtype == DType::uint8;
    EXPECT_EQ(is_integer_avg(dtype, {ReduceOp::avg, 1.0}), wanted) << to_string(dtype);
  }
}

TEST(IntegerAvg, IsRoundedTowardsZero) {
  EXPECT_EQ(mean<std::int32_t>({-7, 0}), -3);
  EXPECT_EQ(mean<std::int64_t>({-7, 0}), -3);
  EXPECT_EQ(mean<std::int64_t>({7, 0}), 3);
  EXPECT_EQ(mean<std::uint8_t>({200, 0, 0}), 66);
  EXPECT_EQ(mean<std::int16_t>({-300, 0, 0, 0, 0, 0, 0}), -42);
  EXPECT_EQ(mean<std::int8_t>({-9, 0}), -4);
}

TEST(IntegerAvg, DoesNotOverflow) {
  EXPECT_EQ(mean<std::int8_t>({100, 100, 100}), 100);
  EXPECT_EQ(mean<std::int8_t>({-128, -128, -128}), -128);
  EXPECT_EQ(mean<std::uint8_t>({200, 200, 200}), 200);
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  constexpr auto least = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(mean<std::int64_t>({most - 1, most - 1, most - 1}), most - 1);
  EXPECT_EQ(mean<std::int64_t>({most, most, most, most - 1}), most - 1);
  EXPECT_EQ(mean<std::int64_t>({least, least, least, least + 1}), least + 1);
  EXPECT_EQ(mean<std::int64_t>({least, most}), 0);
  EXPECT_EQ(mean<std::int64_t>({least, most, -2}), -1);
  EXPECT_EQ(mean<std::int64_t>({least}), least);
}

// All values within sixteen steps of the ends and the middle of the type.
TEST(IntegerAvg, AgreesWithWiderArithmetic) {
  __extension__ using Wide = __int128;
  std::vector<std::int64_t> values;
  for (std::int64_t step = -8; step < 8; ++step) {
    values.push_back(step);
    values.push_back(step < 0 ? std::numeric_limits<std::int64_t>::max() + step + 1
                              : std::numeric_limits<std::int64_t>::min() + step);
  }
  for (const std::int64_t a : values) {
    for (const std::int64_t b : values) {
      for (const std::int64_t c : values) {
        const auto wanted = static_cast<std::int64_t>((Wide{a} + b + c) / 3);
        ASSERT_EQ(mean<std::int64_t>({a, b, c}), wanted) << a << ' ' << b << ' ' << c;
      }
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
