#pragma once

#include "runtime/collectives/exchange.h"

namespace dlaunch::internal {

// Returns when every rank has called it.
void barrier(Exchange& exchange);

}  // namespace dlaunch::internal
