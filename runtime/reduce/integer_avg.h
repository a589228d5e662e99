// The average of integers. Their sum may not be representable in their type where the average is, so what
// travels between the ranks is wider: each value as an int64, and an int64 as two, quotient and remainder of
// its division by the number of ranks. Those are summed without loss, whatever the order. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dlaunch/backend.h"
#include "dlaunch/tensor.h"

namespace dlaunch {

// What travels: the sum of DType::int64.
bool is_integer_avg(DType dtype, const Reduction& reduction);

// One rank's values as they travel. REQUIRES of both: `dtype` is an integer type.
std::vector<std::int64_t> avg_parts(std::span<const std::byte> values, DType dtype, int ranks);

// `values` become the average, rounded towards zero, whose parts' sum over all ranks is `sum`.
void store_avg(std::span<std::byte> values, DType dtype, std::span<const std::int64_t> sum, int ranks);

}  // namespace dlaunch
