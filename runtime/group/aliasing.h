// Whether tensors of one operation overlap in memory.
#pragma once

#include <span>

#include "dlaunch/tensor.h"

namespace dlaunch::internal {

// Whether two of `written` have a byte in common, or one of `written` and one of `read`.
bool aliases(std::span<const Tensor> written, std::span<const Tensor> read);

}  // namespace dlaunch::internal
