// The element-wise kernels: every dtype and operation against plain arithmetic on one element at a time.

#include "runtime/reduce/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

using test::all_dtypes;
using test::all_ops;
using test::with_type;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// The result for two small numbers; the values fit every dtype, also unsigned ones.
int expected(ReduceOp op, DType dtype, int low, int high) {
  const bool boolean = dtype == DType::boolean;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return boolean ? low | high : low + high;
    case ReduceOp::product:
      return low * high;
    case ReduceOp::min:
      return std::min(low, high);
    case ReduceOp::max:
      return std::max(low, high);
    case ReduceOp::band:
      return low & high;
    case ReduceOp::bor:
      return low | high;
    case ReduceOp::bxor:
      return low ^ high;
  }
  return 0;
}

template <class T>
std::vector<std::byte> encode(const std::vector<int>& numbers) {
  std::vector<std::byte> bytes(numbers.size() * sizeof(T));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const T value = test::to_value<T>(numbers[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

TEST(Reduce, EveryKernelAgreesWithArithmetic) {
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      SCOPED_TRACE(std::string(to_string(op)) + " of " + std::string(to_string(dtype)));
      with_type(dtype, [&]<class T>(T*) {
        // Around every length at which vector code changes.
        for (std::size_t count = 0; count < 70; ++count) {
          std::vector<int> low(count);
          std::vector<int> high(count);
          std::vector<int> result(count);
          for (std::size_t i = 0; i < count; ++i) {
            const int limit = dtype == DType::boolean ? 2 : sizeof(T) == 1 ? 3 : 11;
            low[i] = static_cast<int>(i * 7 + 3) % limit;
            high[i] = static_cast<int>(i * 5 + 1) % limit;
            result[i] = expected(op, dtype, low[i], high[i]);
          }
          const auto a = encode<T>(low);
          const auto b = encode<T>(high);
          const auto wanted = encode<T>(result);
          const ReduceKernel kernel = reduce_kernel(dtype, op);
          ASSERT_NE(kernel, nullptr);
          std::vector<std::byte> apart(a.size());
          kernel(apart.data(), a.data(), b.data(), count);
          EXPECT_EQ(apart, wanted);
          auto into_low = a;
          kernel(into_low.data(), into_low.data(), b.data(), count);
          EXPECT_EQ(into_low, wanted);
          auto into_high = b;
          kernel(into_high.data(), a.data(), into_high.data(), count);
          EXPECT_EQ(into_high, wanted);
        }
      });
    }
  }
}

TEST(Reduce, RefusesWithTheReason) {
  EXPECT_EQ(why_not_allowed(DType::complex64, ReduceOp::max),
            "max of complex64 is not possible: complex numbers have no order");
  EXPECT_EQ(why_not_allowed(DType::float32, ReduceOp::band),
            "band of float32 is not possible: bitwise operations need integers");
  EXPECT_EQ(why_not_allowed(DType::boolean, ReduceOp::avg),
            "avg of bool is not possible: bool has no average");
  EXPECT_EQ(why_not_allowed(DType::float8_e4m3, ReduceOp::bxor),
            "bxor of float8_e4m3fn is not possible: bitwise operations need integers");
  EXPECT_TRUE(why_not_allowed(DType::int32, ReduceOp::premul_sum));
  EXPECT_TRUE(why_not_allowed(DType::complex128, ReduceOp::product));
  EXPECT_FALSE(why_not_allowed(DType::boolean, ReduceOp::bxor));
  EXPECT_TRUE(supports_complex(ReduceOp::avg));
  EXPECT_FALSE(supports_complex(ReduceOp::product));
}

// The table in reduce_op.h: 14 dtypes and 9 operations.
TEST(Reduce, EveryAllowedCombinationHasAKernel) {
  int allowed = 0;
  for (const DType dtype : all_dtypes) {
    for (const ReduceOp op : all_ops) {
      if (why_not_allowed(dtype, op)) continue;
      ++allowed;
      EXPECT_NE(reduce_kernel(dtype, op), nullptr);
    }
  }
  EXPECT_EQ(allowed, 5 * 8 + 7 + 6 * 6 + 2 * 3);
}

TEST(Reduce, IntegersWrapAround) {
  const std::vector<std::int8_t> low = {127, -128, 100};
  const std::vector<std::int8_t> high = {1, -1, 100};
  std::vector<std::int8_t> out(3);
  const auto data = [](auto& v) { return reinterpret_cast<std::byte*>(const_cast<std::int8_t*>(v.data())); };
  reduce_kernel(DType::int8, ReduceOp::sum)(data(out), data(low), data(high), 3);
  EXPECT_EQ(out, (std::vector<std::int8_t>{-128, 127, -56}));
  const std::vector<std::int64_t> big = {std::numeric_limits<std::int64_t>::max()};
  std::int64_t product = 0;
  reduce_kernel(DType::int64, ReduceOp::product)(reinterpret_cast<std::byte*>(&product),
                                                 std::as_bytes(std::span(big)).data(),
                                                 std::as_bytes(std::span(big)).data(), 1);
  EXPECT_EQ(product, 1);
}

template <class T>
T combine(ReduceOp op, T low, T high) {
  T out{};
  reduce_kernel(dtype_of<T>(), op)(reinterpret_cast<std::byte*>(&out),
                                   reinterpret_cast<const std::byte*>(&low),
                                   reinterpret_cast<const std::byte*>(&high), 1);
  return out;
}

TEST(Reduce, ANanOnEitherSideWins) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    EXPECT_TRUE(std::isnan(combine(op, nan, 1.0F)));
    EXPECT_TRUE(std::isnan(combine(op, 1.0F, nan)));
    EXPECT_TRUE(std::isnan(combine(op, static_cast<double>(nan), 1.0)));
    EXPECT_TRUE(std::isnan(combine(op, 1.0, static_cast<double>(nan))));
    EXPECT_TRUE(std::isnan(combine(op, Float16::from(nan), Float16::from(1)).to_float()));
    EXPECT_TRUE(std::isnan(combine(op, BFloat16::from(1), BFloat16::from(nan)).to_float()));
    EXPECT_TRUE(std::isnan(combine(op, Float8E4M3::from(nan), Float8E4M3::from(1)).to_float()));
    EXPECT_TRUE(std::isnan(combine(op, Float8E4M3::from(1), Float8E4M3::from(nan)).to_float()));
    EXPECT_TRUE(std::isnan(combine(op, Float8E5M2::from(nan), Float8E5M2::from(1)).to_float()));
    EXPECT_TRUE(std::isnan(combine(op, Float8E5M2::from(1), Float8E5M2::from(nan)).to_float()));
  }
}

TEST(Reduce, HalfSumsAreRoundedOnce) {
  // 2048 + 1 lies between two binary16 numbers and goes to the even one; 2050 + 1 too.
  EXPECT_EQ(combine(ReduceOp::sum, Float16::from(2048), Float16::from(1)).to_float(), 2048.0F);
  EXPECT_EQ(combine(ReduceOp::sum, Float16::from(2050), Float16::from(1)).to_float(), 2052.0F);
  EXPECT_EQ(combine(ReduceOp::sum, BFloat16::from(256), BFloat16::from(1)).to_float(), 256.0F);
  EXPECT_EQ(combine(ReduceOp::sum, BFloat16::from(258), BFloat16::from(1)).to_float(), 260.0F);
  EXPECT_EQ(combine(ReduceOp::sum, Float8E4M3::from(16), Float8E4M3::from(1)).to_float(), 16.0F);
  EXPECT_EQ(combine(ReduceOp::sum, Float8E4M3::from(18), Float8E4M3::from(1)).to_float(), 20.0F);
  EXPECT_EQ(combine(ReduceOp::sum, Float8E5M2::from(8), Float8E5M2::from(1)).to_float(), 8.0F);
  EXPECT_EQ(combine(ReduceOp::sum, Float8E5M2::from(10), Float8E5M2::from(1)).to_float(), 12.0F);
}

// A reduction over two ranks of which both have these bytes.
template <class T>
std::vector<unsigned> of_two_alike(ReduceOp op, std::initializer_list<std::uint8_t> bytes) {
  std::vector<unsigned> results;
  for (const std::uint8_t bits : bytes) {
    T value{bits};
    const Reduction reduction{op, 1.0};
    prepare(std::as_writable_bytes(std::span(&value, 1)), dtype_of<T>(), reduction, 2);
    results.push_back(combine(op, value, value).bits);
  }
  return results;
}

// Seen with NCCL 2.32 on an H200, two ranks with these bytes each: what is too large saturates, and an
// average divides first.
TEST(Reduce, Float8HasTheResultsThatWereSeenOnAGpu) {
  const auto e4m3 = [](ReduceOp op) { return of_two_alike<Float8E4M3>(op, {0x38, 0x40, 0x44, 0x78}); };
  using Bytes = std::vector<unsigned>;
  EXPECT_EQ(e4m3(ReduceOp::sum), (Bytes{0x40, 0x48, 0x4c, 0x7e}));
  EXPECT_EQ(e4m3(ReduceOp::product), (Bytes{0x38, 0x48, 0x51, 0x7e}));
  EXPECT_EQ(e4m3(ReduceOp::avg), (Bytes{0x38, 0x40, 0x44, 0x78}));
  EXPECT_EQ(e4m3(ReduceOp::max), (Bytes{0x38, 0x40, 0x44, 0x78}));
  const auto e5m2 = [](ReduceOp op) { return of_two_alike<Float8E5M2>(op, {0x38, 0x40, 0x44, 0x78}); };
  EXPECT_EQ(e5m2(ReduceOp::sum), (Bytes{0x3c, 0x44, 0x48, 0x7b}));
  EXPECT_EQ(e5m2(ReduceOp::product), (Bytes{0x34, 0x44, 0x4c, 0x7b}));
}

template <class T>
T prepared(T value, const Reduction& reduction, int world_size) {
  prepare(std::as_writable_bytes(std::span(&value, 1)), dtype_of<T>(), reduction, world_size);
  return value;
}

// Every value of a 16-bit type with another one, every two of an 8-bit type: in a row, for vector code, and
// one by one.
template <class Half>
void expect_the_same_in_rows() {
  std::vector<Half> low(0x10000);
  std::vector<Half> high(low.size());
  for (std::size_t i = 0; i < low.size(); ++i) {
    low[i].bits = static_cast<decltype(Half::bits)>(i);
    high[i].bits = static_cast<decltype(Half::bits)>(sizeof(Half) == 1 ? i >> 8U : i * 40503);
  }
  const auto equal = [](Half a, Half b) {
    return a == b || (std::isnan(a.to_float()) && std::isnan(b.to_float()));
  };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product, ReduceOp::min, ReduceOp::max}) {
    std::vector<Half> row(low.size());
    reduce_kernel(dtype_of<Half>(), op)(reinterpret_cast<std::byte*>(row.data()),
                                        reinterpret_cast<const std::byte*>(low.data()),
                                        reinterpret_cast<const std::byte*>(high.data()), row.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      ASSERT_TRUE(equal(row[i], combine(op, low[i], high[i]))) << to_string(op) << " of " << i;
    }
  }
  const Reduction avg{ReduceOp::avg, 1.0};
  std::vector<Half> row = low;
  prepare(std::as_writable_bytes(std::span(row)), dtype_of<Half>(), avg, 3);
  for (std::size_t i = 0; i < row.size(); ++i) ASSERT_TRUE(equal(row[i], prepared(low[i], avg, 3))) << i;
}

TEST(Reduce, RowsOfHalvesAreAsSingleOnes) {
  expect_the_same_in_rows<Float16>();
  expect_the_same_in_rows<BFloat16>();
  expect_the_same_in_rows<Float8E4M3>();
  expect_the_same_in_rows<Float8E5M2>();
}

TEST(Reduce, AveragesDoNotOverflow) {
  const Reduction avg{ReduceOp::avg, 1.0};
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(prepared(most, avg, 2), most / 2);
  EXPECT_EQ(prepared(Float16::from(60000), avg, 4).to_float(), 15000.0F);
  EXPECT_EQ(prepared(Float8E4M3::from(448), avg, 4).to_float(), 112.0F);
  EXPECT_EQ(prepared(std::complex<double>(4, -6), avg, 2), std::complex<double>(2, -3));
}

TEST(Reduce, PremulSumScalesFirst) {
  const Reduction scaled{ReduceOp::premul_sum, 0.5};
  EXPECT_EQ(prepared(3.0F, scaled, 8), 1.5F);
  EXPECT_EQ(prepared(BFloat16::from(3), scaled, 8).to_float(), 1.5F);
  EXPECT_EQ(prepared(Float8E4M3::from(3), scaled, 8).to_float(), 1.5F);
  EXPECT_EQ(prepared(Float8E5M2::from(3), scaled, 8).to_float(), 1.5F);
  EXPECT_EQ(prepared(std::complex<float>(2, 4), scaled, 8), std::complex<float>(1, 2));
}

TEST(Half, KnownValues) {
  EXPECT_EQ(Float16::from(1.0F).bits, 0x3c00);
  EXPECT_EQ(Float16::from(-2.0F).bits, 0xc000);
  EXPECT_EQ(Float16::from(65504.0F).bits, 0x7bff);
  EXPECT_EQ(Float16::from(65519.0F).bits, 0x7bff);
  EXPECT_EQ(Float16::from(65520.0F).bits, 0x7c00);  // rounds to infinity
  EXPECT_EQ(Float16::from(0x1p-24F).bits, 0x0001);  // the smallest
  EXPECT_EQ(Float16::from(0x1p-25F).bits, 0x0000);  // half of it goes to even
  EXPECT_EQ(Float16::from(0x1.8p-24F).bits, 0x0002);
  EXPECT_EQ(BFloat16::from(1.0F).bits, 0x3f80);
  EXPECT_EQ(BFloat16::from(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Half, EveryValueSurvivesFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float value = half.to_float();
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(Float16::from(value).to_float()));
    } else {
      ASSERT_EQ(Float16::from(value), half) << bits;
    }
    const BFloat16 brain{static_cast<std::uint16_t>(bits)};
    if (std::isnan(brain.to_float())) {
      EXPECT_TRUE(std::isnan(BFloat16::from(brain.to_float()).to_float()));
    } else {
      ASSERT_EQ(BFloat16::from(brain.to_float()), brain) << bits;
    }
  }
}

}  // namespace
}  // namespace dlaunch::internal
