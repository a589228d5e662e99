#include "tests/doubles/nccl_arithmetic.h"

#include <dlaunch/float8.h>
#include <dlaunch/half.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

namespace doubles {

namespace {

using dlaunch::BFloat16;
using dlaunch::Float16;
using dlaunch::Float8E4M3;
using dlaunch::Float8E5M2;

template <class T>
T plain(T value) {
  return value;
}
float plain(Float16 value) { return value.to_float(); }
float plain(BFloat16 value) { return value.to_float(); }
float plain(Float8E4M3 value) { return value.to_float(); }
float plain(Float8E5M2 value) { return value.to_float(); }

template <class T, class Value>
T stored(Value value) {
  if constexpr (requires { T::from(0.0F); }) {  // which saturates if it is a float8, as NCCL does
    return T::from(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

// Calls `use` with a value of the C++ type.
template <class Use>
bool with_type(ncclDataType_t type, const Use& use) {
  switch (static_cast<int>(type)) {
    case ncclInt8:
      use(std::int8_t());
      return true;
    case ncclUint8:
      use(std::uint8_t());
      return true;
    case ncclInt32:
      use(std::int32_t());
      return true;
    case ncclInt64:
      use(std::int64_t());
      return true;
    case ncclFloat16:
      use(Float16());
      return true;
    case ncclBfloat16:
      use(BFloat16());
      return true;
#if NCCL_VERSION_CODE >= 22400
    case ncclFloat8e4m3:
      use(Float8E4M3());
      return true;
    case ncclFloat8e5m2:
      use(Float8E5M2());
      return true;
#endif
    case ncclFloat32:
      use(float());
      return true;
    case ncclFloat64:
      use(double());
      return true;
    default:
      return false;
  }
}

template <class T>
std::span<T> view(std::vector<std::byte>& values) {
  return {reinterpret_cast<T*>(values.data()), values.size() / sizeof(T)};
}

template <class T>
constexpr bool is_floating = std::is_floating_point_v<decltype(plain(T()))>;

// A NaN loses, as on GPUs.
template <class Plain>
Plain smaller(Plain a, Plain b) {
  if constexpr (std::is_floating_point_v<Plain>) return std::fmin(a, b);
  return std::min(a, b);
}
template <class Plain>
Plain larger(Plain a, Plain b) {
  if constexpr (std::is_floating_point_v<Plain>) return std::fmax(a, b);
  return std::max(a, b);
}

template <class T>
T combined(T first, T second, ncclRedOp_t op) {
  const auto a = plain(first);
  const auto b = plain(second);
  switch (static_cast<int>(op)) {
    case ncclProd:
      return stored<T>(a * b);
    case ncclMin:
      return stored<T>(smaller(a, b));
    case ncclMax:
      return stored<T>(larger(a, b));
    default:
      return stored<T>(a + b);
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  std::size_t size = 0;
  with_type(type, [&](auto value) { size = sizeof value; });
  return size;
}

double value_at(const void* scalar, ncclDataType_t type) {
  double result = 0;
  with_type(type, [&](auto value) {
    std::memcpy(&value, scalar, sizeof value);
    result = static_cast<double>(plain(value));
  });
  return result;
}

std::vector<std::byte> loaded(const std::byte* values, std::size_t count, ncclDataType_t type,
                              const Operator& op, int ranks) {
  std::vector<std::byte> own(count * size_of(type));
  if (!own.empty()) std::memcpy(own.data(), values, own.size());
  with_type(type, [&](auto value) {
    using T = decltype(value);
    const bool averages = op.base == ncclAvg && is_floating<T>;
    if (!averages && !op.factor) return;
    const double factor = averages ? static_cast<double>(plain(stored<T>(1.0 / ranks))) : *op.factor;
    for (T& each : view<T>(own)) each = stored<T>(static_cast<double>(plain(each)) * factor);
  });
  return own;
}

void combine(std::vector<std::byte>& into, const std::vector<std::byte>& values, ncclDataType_t type,
             const Operator& op) {
  with_type(type, [&](auto value) {
    using T = decltype(value);
    const std::span<T> results = view<T>(into);
    const auto* const others = reinterpret_cast<const T*>(values.data());
    for (std::size_t i = 0; i < results.size(); ++i) results[i] = combined(results[i], others[i], op.base);
  });
}

void finish(std::vector<std::byte>& values, ncclDataType_t type, const Operator& op, int ranks) {
  if (op.base != ncclAvg) return;
  with_type(type, [&](auto value) {
    using T = decltype(value);
    if constexpr (!is_floating<T>) {
      for (T& each : view<T>(values))
        each = stored<T>(plain(each) / static_cast<decltype(plain(each))>(ranks));
    }
  });
}

}  // namespace doubles
