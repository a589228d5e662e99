#pragma once

#include <cstddef>
#include <span>

#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// Every rank's `values` become those of rank `src`.
void broadcast(Exchange& exchange, std::span<std::byte> values, int src);

}  // namespace dlaunch::internal
