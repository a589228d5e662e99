// At which of the job's endpoints this agent serves the coordinator and the store.
#pragma once

#include <cstddef>
#include <optional>

#include "launcher/plan.h"
#include "store/base/result.h"
#include "store/server.h"

namespace dlaunch::launcher {

// Listens there; the number of the endpoint, or none where others serve. Where the plan left the port open,
// it is filled in.
Result<std::optional<std::size_t>> serve_endpoint(StoreServer& server, JobPlan& plan);

}  // namespace dlaunch::launcher
