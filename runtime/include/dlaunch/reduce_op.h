// How the values of several ranks become one.
#pragma once

#include <cstdint>
#include <string_view>

#include "dlaunch/export.h"

namespace dlaunch {
inline namespace v1 {

// Which dtypes allow which operation:
//
//   operation            integers   bool   floating point   complex
//   sum, avg             yes        sum    yes              yes
//   product, min, max    yes        yes    yes              -
//   band, bor, bxor      yes        yes    -                -
//   premul_sum           -          -      yes              yes
//
// Integers wrap around, but their avg does not: it is the mean, rounded towards zero. sum and product of bool
// are "or" and "and". float16, bfloat16 and the float8 types are computed in float and rounded once for each
// rank that is added; float8 saturates (float8.h). A NaN on any rank makes min and max NaN; over NCCL only
// NaNs on all ranks do. An operation that is not allowed throws DistError before anything is sent.
enum class ReduceOp : std::uint8_t {
  sum,
  avg,
  product,
  min,
  max,
  band,        // bitwise and
  bor,         // bitwise or
  bxor,        // bitwise exclusive or
  premul_sum,  // each rank's values times a factor (OperationOptions::premul_factor), then the sum
};

// torch.distributed's older name.
using reduce_op [[deprecated("write ReduceOp")]] = ReduceOp;  // NOLINT(readability-identifier-naming)

DLAUNCH_EXPORT std::string_view to_string(ReduceOp op);  // "sum"
// Whether complex dtypes allow it.
DLAUNCH_EXPORT bool supports_complex(ReduceOp op);

}  // namespace v1
}  // namespace dlaunch
