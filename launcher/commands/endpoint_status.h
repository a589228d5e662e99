// Queries the coordinator at an endpoint for its view of the job; works from any host that reaches it.
#pragma once

#include <string>
#include <vector>

#include "agent/model/world_view.h"
#include "store/base/address.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// Requests /job by HTTP from one endpoint after the other, for up to `patience` each. Returns the view of the
// first that leads, else of the first that answers, else the last one's error. `secret`: the job's; empty: it
// has none. REQUIRES: at least one endpoint.
Result<agent::WorldView> query_endpoints(const std::vector<Address>& endpoints, const std::string& secret,
                                         Duration patience);

}  // namespace dlaunch::launcher
