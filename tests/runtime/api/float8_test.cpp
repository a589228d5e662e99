// The 8-bit floating point types: what each byte means, and which byte a float becomes.

#include "dlaunch/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dlaunch {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// The value of a byte by the definition of the type.
float defined(std::uint8_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int leading_one = exponent > 0 ? 1 << fraction_bits : 0;
  const float magnitude =
      std::ldexp(static_cast<float>(leading_one + fraction), std::max(exponent, 1) - bias - fraction_bits);
  return bits < 0x80 ? magnitude : -magnitude;
}

template <class T>
void expect_value(T value, float wanted) {
  const float is = value.to_float();
  EXPECT_EQ(is, wanted) << static_cast<int>(value.bits);
  EXPECT_EQ(std::signbit(is), value.bits >= 0x80) << static_cast<int>(value.bits);
}

TEST(Float8, EachByteOfE4m3fnHasItsValue) {
  for (unsigned bits = 0; bits < 0x100; ++bits) {
    const Float8E4M3 value{static_cast<std::uint8_t>(bits)};
    if ((bits & 0x7fU) == 0x7fU) {
      EXPECT_TRUE(std::isnan(value.to_float())) << bits;
    } else {
      expect_value(value, defined(value.bits, 3, 7));
    }
  }
  EXPECT_EQ(Float8E4M3{0x7e}.to_float(), 448.0F);
  EXPECT_EQ(Float8E4M3{0x01}.to_float(), 0x1p-9F);
}

TEST(Float8, EachByteOfE5m2HasItsValue) {
  for (unsigned bits = 0; bits < 0x100; ++bits) {
    const Float8E5M2 value{static_cast<std::uint8_t>(bits)};
    if ((bits & 0x7fU) > 0x7cU) {
      EXPECT_TRUE(std::isnan(value.to_float())) << bits;
    } else {
      expect_value(value, (bits & 0x7fU) == 0x7cU ? std::copysign(infinity, bits < 0x80 ? 1.0F : -1.0F)
                                                  : defined(value.bits, 2, 15));
    }
  }
  EXPECT_EQ(Float8E5M2{0x7b}.to_float(), 57344.0F);
  EXPECT_EQ(Float8E5M2{0x01}.to_float(), 0x1p-16F);
}

// Each pair of neighbours: the float between them goes to the even one, those beside it to the nearest.
template <class T>
void expect_nearest(std::uint8_t greatest) {
  for (std::uint8_t bits = 0; bits < greatest; ++bits) {
    const T low{bits};
    const T high{static_cast<std::uint8_t>(bits + 1)};
    const T even = bits % 2 == 0 ? low : high;
    const float middle = (low.to_float() + high.to_float()) / 2;
    EXPECT_EQ(T::from(low.to_float()), low) << static_cast<int>(bits);
    EXPECT_EQ(T::from(middle), even) << static_cast<int>(bits);
    EXPECT_EQ(T::from(std::nextafter(middle, 0.0F)), low) << static_cast<int>(bits);
    EXPECT_EQ(T::from(std::nextafter(middle, infinity)), high) << static_cast<int>(bits);
    EXPECT_EQ(T::from(-middle).bits, even.bits | 0x80) << static_cast<int>(bits);
  }
}

TEST(Float8, FloatsBecomeTheNearestValue) {
  expect_nearest<Float8E4M3>(0x7e);
  expect_nearest<Float8E5M2>(0x7b);
  EXPECT_EQ(Float8E4M3::from(-0.0F).bits, 0x80);
  EXPECT_EQ(Float8E5M2::from(std::numeric_limits<float>::denorm_min()).bits, 0x00);
}

// As CUDA's conversions with __NV_SATFINITE.
template <class T>
void expect_saturated(std::uint8_t greatest) {
  const float most = T{greatest}.to_float();
  for (const float value : {most, std::nextafter(most, infinity), most * 1.2F, most * 2,
                            std::numeric_limits<float>::max(), infinity}) {
    EXPECT_EQ(T::from(value).bits, greatest) << value;
    EXPECT_EQ(T::from(-value).bits, greatest | 0x80) << value;
  }
}

TEST(Float8, WhatIsTooLargeBecomesTheGreatestFiniteValue) {
  expect_saturated<Float8E4M3>(0x7e);
  expect_saturated<Float8E5M2>(0x7b);
}

TEST(Float8, ANanStaysOne) {
  for (const float value : {nan, -nan, std::bit_cast<float>(0x7f800001U)}) {
    EXPECT_TRUE(std::isnan(Float8E4M3::from(value).to_float()));
    EXPECT_TRUE(std::isnan(Float8E5M2::from(value).to_float()));
  }
}

}  // namespace
}  // namespace dlaunch
