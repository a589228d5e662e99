// The context of this thread's calls, for the sources that send and serve them.
#pragma once

#include <cstdint>

#include "dlaunch/rpc_context.h"

namespace dlaunch::internal {

// Reports the other worker if a call is under a context.
void meet_in_context(std::uint64_t context, std::uint32_t rank);

}  // namespace dlaunch::internal
