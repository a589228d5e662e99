// The loops for newer processors compute what the plain ones do.

#include "runtime/reduce/reduce_loops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "runtime/reduce/reduce.h"
#include "tests/runtime/collectives/values.h"

namespace dlaunch::internal {
namespace {

struct Difference {
  template <class T>
  static T apply(T low, T high) {
    return low - high;
  }
};

// Values that are neither rounded nor equal to their neighbours, and the ends of the type.
template <class T>
std::vector<T> values_of(std::size_t count, int seed) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = test::to_value<T>(static_cast<int>((i * 37 + static_cast<std::size_t>(seed)) % 101) - 50);
  }
  return values;
}

// All lengths around a vector's and a block's, at every alignment; nothing beyond the end is written.
template <class T>
void expect_elementwise() {
  for (const std::size_t around : {std::size_t{0}, std::size_t{512}, std::size_t{1024}}) {
    for (std::size_t count = around < 9 ? 0 : around - 9; count < around + 70; ++count) {
      const std::size_t offset = count % 5;
      const std::vector<T> low = values_of<T>(count + offset, 3);
      const std::vector<T> high = values_of<T>(count + offset, 8);
      std::vector<T> out = values_of<T>(count + offset + 1, 77);
      const T behind = out.back();
      loops::combine<T, Difference>(reinterpret_cast<std::byte*>(out.data() + offset),
                                    reinterpret_cast<const std::byte*>(low.data() + offset),
                                    reinterpret_cast<const std::byte*>(high.data() + offset), count);
      for (std::size_t i = 0; i < count; ++i) {
        const T wanted = loops::combined<T, Difference>(low[offset + i], high[offset + i]);
        ASSERT_EQ(std::memcmp(&out[offset + i], &wanted, sizeof wanted), 0) << count << ' ' << i;
      }
      ASSERT_EQ(std::memcmp(&out.back(), &behind, sizeof behind), 0) << count;
    }
  }
}

TEST(ReduceLoops, CombineEachElementWithItsCounterpart) {
  expect_elementwise<std::int32_t>();
  expect_elementwise<std::int64_t>();
  expect_elementwise<float>();
  expect_elementwise<double>();
  expect_elementwise<Float16>();
  expect_elementwise<BFloat16>();
  expect_elementwise<Float8E4M3>();
  expect_elementwise<Float8E5M2>();
}

template <class T, class Change>
void expect_changed(const Change& change) {
  for (std::size_t count = 0; count < 600; count += count < 70 ? 1 : 53) {
    std::vector<T> values = values_of<T>(count + 1, 3);
    const std::vector<T> before = values;
    loops::change_each(values.data(), count, change);
    for (std::size_t i = 0; i < count; ++i) {
      const T wanted = loops::changed(before[i], change);
      ASSERT_EQ(std::memcmp(&values[i], &wanted, sizeof wanted), 0) << count << ' ' << i;
    }
    ASSERT_EQ(std::memcmp(&values[count], &before[count], sizeof(T)), 0) << count;
  }
}

TEST(ReduceLoops, ChangeEachElement) {
  const auto third = [](auto value) { return value / 3; };
  expect_changed<float>(third);
  expect_changed<double>(third);
  expect_changed<std::int32_t>(third);
  expect_changed<Float16>(third);
  expect_changed<BFloat16>(third);
  expect_changed<Float8E4M3>(third);
  expect_changed<Float8E5M2>(third);
}

// A half is changed as a float and rounded once: twice, a third of it would differ.
TEST(ReduceLoops, AHalfIsAFloatInBetween) {
  const auto there_and_back = [](float value) { return value * 3000.0F / 3000.0F; };
  Float16 most = Float16::from(65504.0F);
  loops::change_each(&most, 1, there_and_back);
  EXPECT_EQ(most.to_float(), 65504.0F);
}

}  // namespace
}  // namespace dlaunch::internal
