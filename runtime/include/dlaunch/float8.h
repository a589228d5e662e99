// The two 8-bit floating point types of the OCP: storage and conversion, no arithmetic.
//
// Conversions from float round to the nearest value, ties to even, and saturate: a value beyond the greatest
// finite one, an infinity too, becomes that one with its sign. CUDA's conversions and NCCL's reductions do
// so, and a reduction is to have one result on CPUs and GPUs. On CPUs such a value becomes an infinity (e5m2)
// with PyTorch and ml_dtypes, and NaN (e4m3fn) with ml_dtypes and PyTorch 2.9; PyTorch 2.15 saturates e4m3fn.
// A NaN stays one everywhere. An overflow leaves no mark in a sum: look for it before values become 8-bit.
#pragma once

#include <bit>
#include <cstdint>

#include "dlaunch/half.h"

namespace dlaunch {
inline namespace v1 {

// PyTorch's float8_e4m3fn: 1 sign, 4 exponent and 3 fraction bits. It has no infinities; 0x7f and 0xff are
// NaN. Greatest value 448, smallest 2^-9.
struct Float8E4M3 {
  std::uint8_t bits = 0;

  static Float8E4M3 from(float value);
  [[nodiscard]] float to_float() const;
  bool operator==(const Float8E4M3&) const = default;  // of the bits
};

// PyTorch's float8_e5m2, the upper half of a binary16: 1 sign, 5 exponent and 2 fraction bits, with
// infinities (which from() never makes) and NaN. Greatest finite value 57344, smallest 2^-16.
struct Float8E5M2 {
  std::uint8_t bits = 0;

  static Float8E5M2 from(float value);
  [[nodiscard]] float to_float() const;
  bool operator==(const Float8E5M2&) const = default;  // of the bits
};

namespace float8_detail {
// Rounded to a type with so many fraction bits. Without a branch (half_detail).
template <unsigned fraction_bits>
inline std::uint8_t rounded(float value, std::uint32_t smallest_normal, float unit_of_subnormals,
                            std::uint32_t greatest, std::uint32_t nan) {
  constexpr unsigned dropped = 23 - fraction_bits;
  const std::uint32_t raw = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = raw & 0x7fffffffU;
  // Normal results: half to even. A carry runs into the exponent, as it should. The smallest has exponent 1.
  const std::uint32_t rebased = magnitude - smallest_normal + (1U << 23U);
  const std::uint32_t odd = (magnitude >> dropped) & 1U;
  const std::uint32_t normal = (rebased + (1U << (dropped - 1U)) - 1U + odd) >> dropped;
  // Subnormal results: a float of which the last bit counts in their unit; adding it rounds.
  const float shifted = std::bit_cast<float>(magnitude) + unit_of_subnormals;
  const std::uint32_t tiny =
      std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(unit_of_subnormals);
  const std::uint32_t any = half_detail::choose(magnitude < smallest_normal, tiny, normal);
  const std::uint32_t finite = half_detail::choose(any > greatest, greatest, any);
  const std::uint32_t result = half_detail::choose(magnitude > 0x7f800000U, nan, finite);
  return static_cast<std::uint8_t>(result | ((raw >> 24U) & 0x80U));
}
}  // namespace float8_detail

inline float Float8E4M3::to_float() const {
  // As Float16::to_float().
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fU) << 20U;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24U;
  const float without_one = std::bit_cast<float>(magnitude + 0x3c800000U) - 0x1p-6F;
  const std::uint32_t finite = half_detail::choose(
      magnitude < 0x00800000U, std::bit_cast<std::uint32_t>(without_one), magnitude + 0x3c000000U);
  return std::bit_cast<float>(half_detail::choose(magnitude == 0x07f00000U, 0x7fc00000U, finite) | sign);
}

inline Float8E4M3 Float8E4M3::from(float value) {
  return {float8_detail::rounded<3>(value, 0x3c800000U, 0x1p14F, 0x7eU, 0x7fU)};
}

inline float Float8E5M2::to_float() const {
  return Float16{static_cast<std::uint16_t>(bits << 8U)}.to_float();
}

inline Float8E5M2 Float8E5M2::from(float value) {
  return {float8_detail::rounded<2>(value, 0x38800000U, 0x1p7F, 0x7bU, 0x7eU)};
}

}  // namespace v1
}  // namespace dlaunch
