// One rank collects from all, or distributes to all.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// At rank `root` outputs[i] becomes rank i's input. REQUIRES: all inputs and outputs have the same size; one
// output for each rank at the root, none elsewhere. `input` may be outputs[rank()].
void gather(Exchange& exchange, std::span<const std::span<std::byte>> outputs,
            std::span<const std::byte> input, int root);

// Every rank's `output` becomes inputs[rank()] of rank `root`. REQUIRES: as above, the other way round.
void scatter(Exchange& exchange, std::span<std::byte> output,
             std::span<const std::span<const std::byte>> inputs, int root);

}  // namespace dlaunch::internal
