#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// outputs[i] becomes rank i's inputs[rank()]. REQUIRES: one input and one output for each rank, which do not
// overlap. If two ranks disagree on the size of a block between them, both get an error that reports it.
void all_to_all(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::span<const std::byte>> inputs);

}  // namespace dlaunch::internal
