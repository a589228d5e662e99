// The sizes of an all_to_all, which the ranks compare before it begins. They may differ, as long as each rank
// sends what its receiver expects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// One rank's sizes, on one line. REQUIRES: one output and one input for each rank.
std::string splits_text(std::span<const Tensor> outputs, std::span<const Tensor> inputs);

// Which ranks send another size than the receiver expects; empty: none. `all`: splits_text(), by rank.
std::string split_mismatch(std::span<const std::string> all);

}  // namespace dlaunch::internal
