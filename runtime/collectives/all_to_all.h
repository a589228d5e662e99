#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/exchange.h"

namespace dlaunch {

// outputs[i] becomes rank i's inputs[rank()]. REQUIRES: one of each for each rank, in memory of their own.
// Two ranks that do not agree on the size of what one sends the other get an error that says so.
void all_to_all(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
                std::span<const std::span<const std::byte>> inputs);

}  // namespace dlaunch
