#include "runtime/reduce/integer_avg.h"

#include <type_traits>

namespace dlaunch::internal {

namespace {

// Calls `body` with the type's integer.
template <class Body>
void with_integer(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::int8:
      return body(std::int8_t{});
    case DType::int16:
      return body(std::int16_t{});
    case DType::int32:
      return body(std::int32_t{});
    case DType::int64:
      return body(std::int64_t{});
    case DType::uint8:
      return body(std::uint8_t{});
    case DType::boolean:
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float64:
    case DType::complex64:
    case DType::complex128:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return;
  }
}

// (quotients * ranks + remainders) / ranks, rounded towards zero. The product may overflow; the rounded
// average cannot.
std::int64_t mean_of(std::int64_t quotients, std::int64_t remainders, std::int64_t ranks) {
  std::int64_t more = remainders / ranks;
  std::int64_t left = remainders % ranks;
  if (left < 0) {
    --more;
    left += ranks;
  }
  const std::int64_t down = quotients + more;
  return down < 0 && left > 0 ? down + 1 : down;
}

}  // namespace

bool is_integer(DType dtype) {
  bool result = false;
  with_integer(dtype, [&result](auto /*zero*/) { result = true; });
  return result;
}

std::vector<std::int64_t> avg_parts(std::span<const std::byte> values, DType dtype, int ranks) {
  std::vector<std::int64_t> parts;
  with_integer(dtype, [&]<class T>(T /*zero*/) {
    const std::span from(reinterpret_cast<const T*>(values.data()), values.size() / sizeof(T));
    if constexpr (std::is_same_v<T, std::int64_t>) {
      parts.reserve(2 * from.size());
      for (const T value : from) parts.push_back(value / ranks);
      for (const T value : from) parts.push_back(value % ranks);
    } else {
      parts.assign(from.begin(), from.end());
    }
  });
  return parts;
}

void store_avg(std::span<std::byte> values, DType dtype, std::span<const std::int64_t> sum, int ranks) {
  with_integer(dtype, [&]<class T>(T /*zero*/) {
    const std::span to(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T));
    for (std::size_t i = 0; i < to.size(); ++i) {
      if constexpr (std::is_same_v<T, std::int64_t>) {
        to[i] = mean_of(sum[i], sum[to.size() + i], ranks);
      } else {
        to[i] = static_cast<T>(sum[i] / ranks);
      }
    }
  });
}

}  // namespace dlaunch::internal
