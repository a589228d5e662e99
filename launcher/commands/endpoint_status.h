// A job as the coordinator at an endpoint sees it, asked for from anywhere that reaches it.
#pragma once

#include <string>
#include <vector>

#include "agent/model/world_view.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// Asks for /job by HTTP, at one endpoint after the other, up to `patience` at each: what the first says that
// leads, else what the first says that answers, else why the last does not. `secret`: the job's; empty: it
// has none. REQUIRES: there is one endpoint.
Result<agent::WorldView> query_endpoints(const std::vector<Address>& endpoints, const std::string& secret,
                                         Duration patience);

}  // namespace dlaunch::launcher
