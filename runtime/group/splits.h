// What the ranks of an all_to_all say of its sizes before it begins. Here they may all differ, as long as
// each rank sends what its receiver expects.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlaunch/tensor.h"

namespace dlaunch {

// One rank's, on one line. REQUIRES: as many of both, one for each rank.
std::string splits_text(std::span<const Tensor> outputs, std::span<const Tensor> inputs);

// Who sends something else than is expected; empty if nobody does. `all`: by rank, by splits_text().
std::string split_mismatch(std::span<const std::string> all);

}  // namespace dlaunch
