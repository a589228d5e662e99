// The average of integers. Their sum may overflow their type although the average fits, so the ranks exchange
// wider values: each value as an int64, and an int64 as two, quotient and remainder of its division by the
// number of ranks. These are summed without loss, in any order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/tensor.h"

namespace dlaunch::internal {

bool is_integer(DType dtype);  // bool is none
// Whether the ranks exchange such parts: a sum of DType::int64.
inline bool is_integer_avg(DType dtype, const Reduction& reduction) {
  return reduction.op == ReduceOp::avg && is_integer(dtype);
}

// One rank's values as parts. REQUIRES of both functions: `dtype` is an integer type.
std::vector<std::int64_t> avg_parts(std::span<const std::byte> values, DType dtype, int ranks);

// Sets `values` to the average, rounded towards zero. `sum`: the sum of the parts over all ranks.
void store_avg(std::span<std::byte> values, DType dtype, std::span<const std::int64_t> sum, int ranks);

// Averages `values` over the ranks. `sum` adds up the parts (bytes of DType::int64) over all ranks; they are
// the result where `takes_result`.
template <class Sum>
void average(std::span<std::byte> values, DType dtype, int ranks, bool takes_result, const Sum& sum) {
  std::vector<std::int64_t> parts = avg_parts(values, dtype, ranks);
  sum(std::as_writable_bytes(std::span(parts)));
  if (takes_result) store_avg(values, dtype, parts, ranks);
}

}  // namespace dlaunch::internal
