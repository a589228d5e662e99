// Test values of every dtype: small integers, which every type stores exactly (up to 8, the smallest one), so
// that a sum has one right result in any order.
#pragma once

#include <complex>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

#include "dlaunch/tensor.h"
#include "runtime/reduce/integer_avg.h"
#include "runtime/reduce/reduce.h"

namespace dlaunch::test {

using namespace internal;

template <class T>
T to_value(int number) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> || std::is_same_v<T, Float8E4M3> ||
                std::is_same_v<T, Float8E5M2>) {
    return T::from(static_cast<float>(number));
  } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
    return T(static_cast<typename T::value_type>(number), static_cast<typename T::value_type>(-number));
  } else {
    return static_cast<T>(number);
  }
}

// Bit for bit, NaN included.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

inline const std::vector<DType> all_dtypes = {
    DType::int8,      DType::int16,      DType::int32,       DType::int64,      DType::uint8,
    DType::boolean,   DType::float16,    DType::bfloat16,    DType::float32,    DType::float64,
    DType::complex64, DType::complex128, DType::float8_e4m3, DType::float8_e5m2};
inline const std::vector<ReduceOp> all_ops = {ReduceOp::sum, ReduceOp::avg,  ReduceOp::product,
                                              ReduceOp::min, ReduceOp::max,  ReduceOp::band,
                                              ReduceOp::bor, ReduceOp::bxor, ReduceOp::premul_sum};

// Calls `body` with a null pointer to the dtype's C++ type.
template <class Body>
void with_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::int8:
      return body(static_cast<std::int8_t*>(nullptr));
    case DType::int16:
      return body(static_cast<std::int16_t*>(nullptr));
    case DType::int32:
      return body(static_cast<std::int32_t*>(nullptr));
    case DType::int64:
      return body(static_cast<std::int64_t*>(nullptr));
    case DType::uint8:
      return body(static_cast<std::uint8_t*>(nullptr));
    case DType::boolean:
      return body(static_cast<bool*>(nullptr));
    case DType::float16:
      return body(static_cast<Float16*>(nullptr));
    case DType::bfloat16:
      return body(static_cast<BFloat16*>(nullptr));
    case DType::float8_e4m3:
      return body(static_cast<Float8E4M3*>(nullptr));
    case DType::float8_e5m2:
      return body(static_cast<Float8E5M2*>(nullptr));
    case DType::float32:
      return body(static_cast<float*>(nullptr));
    case DType::float64:
      return body(static_cast<double*>(nullptr));
    case DType::complex64:
      return body(static_cast<std::complex<float>*>(nullptr));
    case DType::complex128:
      return body(static_cast<std::complex<double>*>(nullptr));
  }
}

// The reduction of the values of all ranks, one after the other.
inline std::vector<std::byte> reduction_of(std::vector<std::vector<std::byte>> values, DType dtype,
                                           const Reduction& reduction) {
  const int ranks = static_cast<int>(values.size());
  std::vector<std::byte> result = values[0];
  if (is_integer_avg(dtype, reduction)) {
    with_type(dtype, [&]<class T>(T*) {
      if constexpr (std::is_integral_v<T>) {
        __extension__ using Wide = __int128;
        for (std::size_t at = 0; at < result.size(); at += sizeof(T)) {
          Wide sum = 0;
          for (const auto& one : values) {
            T value{};
            std::memcpy(&value, one.data() + at, sizeof value);
            sum += value;
          }
          const T mean = static_cast<T>(sum / ranks);
          std::memcpy(result.data() + at, &mean, sizeof mean);
        }
      }
    });
    return result;
  }
  for (auto& one : values) prepare(one, dtype, reduction, ranks);
  result = values[0];
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    reduce_kernel(dtype, reduction.op)(result.data(), result.data(), values[rank].data(),
                                       result.size() / size_of(dtype));
  }
  return result;
}

}  // namespace dlaunch::test
