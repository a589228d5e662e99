// A job as the coordinator at an endpoint sees it, asked for from anywhere that reaches it.
#pragma once

#include <string>

#include "agent/world_view.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// Asks for /job by HTTP. Waits, up to `patience`.
Result<agent::WorldView> ask_endpoint(const Address& endpoint, Duration patience);

}  // namespace dlaunch::launcher
