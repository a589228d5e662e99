// The loops over a tensor's elements, each compiled three times on x86-64: for every processor (SSE2), for
// those with AVX2 (nearly all since 2013) and for those with AVX-512, detected at run time. All compute the
// same values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "dlaunch/float8.h"
#include "dlaunch/half.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define DLAUNCH_NEWER_PROCESSOR __attribute__((target("avx2,f16c")))
#define DLAUNCH_AVX512_FEATURES "avx512f,avx512bw,avx512dq,avx512vl,f16c"
#if defined(__clang__)
#define DLAUNCH_NEWEST_PROCESSOR __attribute__((target(DLAUNCH_AVX512_FEATURES)))
#else
#define DLAUNCH_NEWEST_PROCESSOR __attribute__((target(DLAUNCH_AVX512_FEATURES ",prefer-vector-width=512")))
#endif
#else
#define DLAUNCH_NEWER_PROCESSOR
#define DLAUNCH_NEWEST_PROCESSOR
#endif

namespace dlaunch::internal::loops {

#if defined(__x86_64__)
// Every processor with AVX2 has F16C too.
inline bool is_newer_processor() {
  static const bool newer = __builtin_cpu_supports("avx2") != 0;
  return newer;
}
inline bool is_newest_processor() {
  static const bool newest =
      __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  return newest;
}
#else
constexpr bool is_newer_processor() { return false; }
constexpr bool is_newest_processor() { return false; }
#endif

// The 16-bit and 8-bit types are computed in float, with one rounding for each application.
template <class T>
inline constexpr bool is_narrow = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
                                  std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;

template <class T, class Op>
[[gnu::always_inline]] inline T combined(T low, T high) {
  if constexpr (is_narrow<T>) {
    return T::from(Op::apply(low.to_float(), high.to_float()));
  } else {
    return Op::apply(low, high);
  }
}

template <class T, class Change>
[[gnu::always_inline]] inline T changed(T value, const Change& change) {
  if constexpr (is_narrow<T>) {
    return T::from(change(value.to_float()));
  } else {
    return change(value);
  }
}

#if defined(__x86_64__)
DLAUNCH_NEWER_PROCESSOR inline void widen(float* to, const Float16* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(halves));
  }
  for (; i < count; ++i) to[i] = from[i].to_float();
}

DLAUNCH_NEWER_PROCESSOR inline void narrow(Float16* to, const float* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), halves);
  }
  for (; i < count; ++i) to[i] = Float16::from(from[i]);
}

// Float16 has its own instructions for whole rows: in blocks that stay in the first cache.
inline constexpr std::size_t half_block = 512;

template <class Op>
DLAUNCH_NEWER_PROCESSOR void combine_halves(Float16* out, const Float16* low, const Float16* high,
                                            std::size_t count) {
  float a[half_block];
  float b[half_block];
  for (std::size_t begin = 0; begin < count; begin += half_block) {
    const std::size_t length = std::min(half_block, count - begin);
    widen(a, low + begin, length);
    widen(b, high + begin, length);
    for (std::size_t i = 0; i < length; ++i) a[i] = Op::apply(a[i], b[i]);
    narrow(out + begin, a, length);
  }
}

template <class Change>
DLAUNCH_NEWER_PROCESSOR void change_halves(Float16* values, std::size_t count, const Change& change) {
  float a[half_block];
  for (std::size_t begin = 0; begin < count; begin += half_block) {
    const std::size_t length = std::min(half_block, count - begin);
    widen(a, values + begin, length);
    for (std::size_t i = 0; i < length; ++i) a[i] = change(a[i]);
    narrow(values + begin, a, length);
  }
}
#endif

template <class T, class Op>
DLAUNCH_NEWER_PROCESSOR void combine_newer(T* out, const T* low, const T* high, std::size_t count) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, Float16>) return combine_halves<Op>(out, low, high, count);
#endif
  for (std::size_t i = 0; i < count; ++i) out[i] = combined<T, Op>(low[i], high[i]);
}

// Float16's instructions are those of the one above.
template <class T, class Op>
DLAUNCH_NEWEST_PROCESSOR void combine_newest(T* out, const T* low, const T* high, std::size_t count) {
  if constexpr (std::is_same_v<T, Float16>) return combine_newer<T, Op>(out, low, high, count);
  for (std::size_t i = 0; i < count; ++i) out[i] = combined<T, Op>(low[i], high[i]);
}

template <class T, class Change>
DLAUNCH_NEWER_PROCESSOR void change_newer(T* values, std::size_t count, const Change& change) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<T, Float16>) return change_halves(values, count, change);
#endif
  for (std::size_t i = 0; i < count; ++i) values[i] = changed(values[i], change);
}

// out[i] = low[i] Op high[i]
template <class T, class Op>
void combine(std::byte* out, const std::byte* low, const std::byte* high, std::size_t count) {
  T* const o = reinterpret_cast<T*>(out);
  const T* const a = reinterpret_cast<const T*>(low);
  const T* const b = reinterpret_cast<const T*>(high);
  if (is_newest_processor()) return combine_newest<T, Op>(o, a, b, count);
  if (is_newer_processor()) return combine_newer<T, Op>(o, a, b, count);
  for (std::size_t i = 0; i < count; ++i) o[i] = combined<T, Op>(a[i], b[i]);
}

// values[i] = change(values[i]); a 16-bit or 8-bit value is changed as a float.
template <class T, class Change>
void change_each(T* values, std::size_t count, const Change& change) {
  if (is_newer_processor()) return change_newer(values, count, change);
  for (std::size_t i = 0; i < count; ++i) values[i] = changed(values[i], change);
}

}  // namespace dlaunch::internal::loops
