// The two 16-bit floating point types: storage and conversion, no arithmetic.
// Conversions from float round to the nearest value, ties to even, as the hardware does.
#pragma once

#include <bit>
#include <cstdint>

namespace dlaunch {
inline namespace v1 {

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
struct Float16 {
  std::uint16_t bits = 0;

  static Float16 from(float value);
  [[nodiscard]] float to_float() const;
  bool operator==(const Float16&) const = default;  // of the bits
};

// The upper half of a float: 1 sign, 8 exponent and 7 fraction bits.
struct BFloat16 {
  std::uint16_t bits = 0;

  static BFloat16 from(float value);
  [[nodiscard]] float to_float() const;
  bool operator==(const BFloat16&) const = default;  // of the bits
};

namespace half_detail {
// Without a branch, so that a loop over the conversions becomes vector code.
inline std::uint32_t choose(bool first, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(first);
  return (a & mask) | (b & ~mask);
}
}  // namespace half_detail

inline float Float16::to_float() const {
  // The exponent of a binary16 becomes a float's by an addition; infinities and NaN get the highest one.
  // Subnormal values get an exponent, and with it a leading 1, that is then taken away: no step meets a
  // subnormal float, with which processors are slow.
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fffU) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t rebased = magnitude + 0x38000000U;
  const std::uint32_t special = half_detail::choose(magnitude >= 0x0f800000U, 0x38000000U, 0U);
  const float without_one = std::bit_cast<float>(magnitude + 0x38800000U) - 0x1p-14F;
  const std::uint32_t finite =
      half_detail::choose(magnitude < 0x00800000U, std::bit_cast<std::uint32_t>(without_one), rebased);
  return std::bit_cast<float>((finite + special) | sign);
}

inline Float16 Float16::from(float value) {
  const std::uint32_t raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = raw & 0x7fffffffU;
  const std::uint32_t sign = (raw >> 16) & 0x8000U;
  // Normal results: drop 13 fraction bits, half to even. A carry runs into the exponent, as it should.
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + odd) >> 13;
  // Subnormal results: adding 0.5 leaves the wanted bits, correctly rounded, at the end of the fraction.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
  const std::uint32_t tiny = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
  const std::uint32_t finite = half_detail::choose(magnitude < 0x38800000U, tiny, normal);
  const std::uint32_t infinite_or_nan = half_detail::choose(magnitude > 0x7f800000U, 0x7e00U, 0x7c00U);
  const std::uint32_t result = half_detail::choose(magnitude >= 0x477ff000U, infinite_or_nan, finite);
  return {static_cast<std::uint16_t>(result | sign)};
}

inline float BFloat16::to_float() const {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline BFloat16 BFloat16::from(float value) {
  const std::uint32_t raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (raw + 0x7fffU + ((raw >> 16) & 1U)) >> 16;
  const std::uint32_t nan = (raw >> 16) | 0x40U;  // stays a NaN when its lower bits go
  return {static_cast<std::uint16_t>(half_detail::choose((raw & 0x7fffffffU) > 0x7f800000U, nan, rounded))};
}

}  // namespace v1
}  // namespace dlaunch
