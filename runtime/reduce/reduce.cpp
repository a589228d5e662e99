#include "runtime/reduce/reduce.h"

#include <complex>
#include <cstdint>
#include <type_traits>

#include "runtime/reduce/reduce_loops.h"

namespace dlaunch::internal {

namespace {

// Integers wrap around: computed as unsigned and at least 32 bits wide, since signed overflow is undefined,
// even that of a promoted product of two 16-bit numbers.
template <class T>
using Wrapping = std::make_unsigned_t<std::common_type_t<T, std::int32_t>>;

struct Sum {
  template <class T>
  static T apply(T low, T high) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(low) + static_cast<Wrapping<T>>(high));
    } else {
      return low + high;
    }
  }
};
struct Product {
  template <class T>
  static T apply(T low, T high) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(low) * static_cast<Wrapping<T>>(high));
    } else {
      return low * high;
    }
  }
};
// A comparison with NaN is false: `low` must be tested for it; a NaN in `high` is then chosen anyway.
struct Min {
  template <class T>
  static T apply(T low, T high) {
    return (low < high || low != low) ? low : high;  // NOLINT(misc-redundant-expression)
  }
};
struct Max {
  template <class T>
  static T apply(T low, T high) {
    return (low > high || low != low) ? low : high;  // NOLINT(misc-redundant-expression)
  }
};
struct And {
  template <class T>
  static T apply(T low, T high) {
    return static_cast<T>(low & high);
  }
};
struct Or {
  template <class T>
  static T apply(T low, T high) {
    return static_cast<T>(low | high);
  }
};
struct Xor {
  template <class T>
  static T apply(T low, T high) {
    return static_cast<T>(low ^ high);
  }
};

template <class T>
ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      return loops::combine<T, Sum>;
    case ReduceOp::product:
      return loops::combine<T, Product>;
    case ReduceOp::min:
      return loops::combine<T, Min>;
    case ReduceOp::max:
      return loops::combine<T, Max>;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if constexpr (std::is_integral_v<T>) {
        if (op == ReduceOp::band) return loops::combine<T, And>;
        return op == ReduceOp::bor ? loops::combine<T, Or> : loops::combine<T, Xor>;
      }
      break;
  }
  return nullptr;
}

// bool is stored as bytes of 0 and 1.
ReduceKernel kernel_of_bool(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::max:
    case ReduceOp::bor:
      return loops::combine<std::uint8_t, Or>;
    case ReduceOp::product:
    case ReduceOp::min:
    case ReduceOp::band:
      return loops::combine<std::uint8_t, And>;
    case ReduceOp::bxor:
      return loops::combine<std::uint8_t, Xor>;
    case ReduceOp::avg:
    case ReduceOp::premul_sum:
      break;
  }
  return nullptr;
}

// A complex array is an array of its real and imaginary parts: adding and scaling treat them alike.
template <class Real>
void run_complex_sum(std::byte* out, const std::byte* low, const std::byte* high, std::size_t count) {
  loops::combine<Real, Sum>(out, low, high, 2 * count);
}

enum class Family { integer, boolean, floating, complex };

Family family_of(DType dtype) {
  switch (dtype) {
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint8:
      return Family::integer;
    case DType::boolean:
      return Family::boolean;
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float64:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      return Family::floating;
    case DType::complex64:
    case DType::complex128:
      return Family::complex;
  }
  return Family::complex;
}

template <class T, class Change>
void for_each(std::span<std::byte> values, const Change& change) {
  loops::change_each(reinterpret_cast<T*>(values.data()), values.size() / sizeof(T), change);
}

// `change` takes a float or a double.
template <class F>
void for_each_real(std::span<std::byte> values, DType dtype, const F& change) {
  switch (dtype) {
    case DType::float16:
      return for_each<Float16>(values, change);
    case DType::bfloat16:
      return for_each<BFloat16>(values, change);
    case DType::float8_e4m3:
      return for_each<Float8E4M3>(values, change);
    case DType::float8_e5m2:
      return for_each<Float8E5M2>(values, change);
    case DType::float32:
    case DType::complex64:
      return for_each<float>(values, change);
    case DType::float64:
    case DType::complex128:
      return for_each<double>(values, change);
    case DType::int8:
    case DType::int16:
    case DType::int32:
    case DType::int64:
    case DType::uint8:
    case DType::boolean:
      return;
  }
}

}  // namespace

std::optional<std::string> why_not_allowed(DType dtype, ReduceOp op) {
  const Family family = family_of(dtype);
  const auto refuse = [&](const char* why) {
    return std::string(to_string(op)) + " of " + std::string(to_string(dtype)) + " is not possible: " + why;
  };
  switch (op) {
    case ReduceOp::sum:
      return std::nullopt;
    case ReduceOp::avg:
      if (family == Family::boolean) return refuse("bool has no average");
      return std::nullopt;
    case ReduceOp::product:
      if (family == Family::complex) return refuse("complex numbers support only the sum");
      return std::nullopt;
    case ReduceOp::min:
    case ReduceOp::max:
      if (family == Family::complex) return refuse("complex numbers have no order");
      return std::nullopt;
    case ReduceOp::band:
    case ReduceOp::bor:
    case ReduceOp::bxor:
      if (family == Family::floating || family == Family::complex)
        return refuse("bitwise operations need integers");
      return std::nullopt;
    case ReduceOp::premul_sum:
      if (family == Family::integer || family == Family::boolean) {
        return refuse("the factor is a real number, which needs floating point or complex values");
      }
      return std::nullopt;
  }
  return "an unknown reduction";
}

ReduceKernel reduce_kernel(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::int8:
      return kernel_of<std::int8_t>(op);
    case DType::int16:
      return kernel_of<std::int16_t>(op);
    case DType::int32:
      return kernel_of<std::int32_t>(op);
    case DType::int64:
      return kernel_of<std::int64_t>(op);
    case DType::uint8:
      return kernel_of<std::uint8_t>(op);
    case DType::boolean:
      return kernel_of_bool(op);
    case DType::float16:
      return kernel_of<Float16>(op);
    case DType::bfloat16:
      return kernel_of<BFloat16>(op);
    case DType::float8_e4m3:
      return kernel_of<Float8E4M3>(op);
    case DType::float8_e5m2:
      return kernel_of<Float8E5M2>(op);
    case DType::float32:
      return kernel_of<float>(op);
    case DType::float64:
      return kernel_of<double>(op);
    case DType::complex64:
      return run_complex_sum<float>;
    case DType::complex128:
      return run_complex_sum<double>;
  }
  return nullptr;
}

bool needs_preparing(DType dtype, const Reduction& reduction) {
  const Family family = family_of(dtype);
  return reduction.op == ReduceOp::premul_sum ||
         (reduction.op == ReduceOp::avg && (family == Family::floating || family == Family::complex));
}

void scale(std::span<std::byte> values, DType dtype, const Reduction& reduction, int world_size) {
  if (reduction.op == ReduceOp::premul_sum) {
    for_each_real(values, dtype,
                  [factor = reduction.factor]<class Real>(Real x) { return x * static_cast<Real>(factor); });
  } else if (reduction.op == ReduceOp::avg) {
    for_each_real(values, dtype,
                  [world_size]<class Real>(Real x) { return x / static_cast<Real>(world_size); });
  }
}

}  // namespace dlaunch::internal

namespace dlaunch {
inline namespace v1 {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::product:
      return "product";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
    case ReduceOp::band:
      return "band";
    case ReduceOp::bor:
      return "bor";
    case ReduceOp::bxor:
      return "bxor";
    case ReduceOp::premul_sum:
      return "premul_sum";
  }
  return "an unknown reduction";
}

bool supports_complex(ReduceOp op) { return !internal::why_not_allowed(DType::complex64, op); }

}  // namespace v1
}  // namespace dlaunch
