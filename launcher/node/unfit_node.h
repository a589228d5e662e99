// A node that cannot start its part of a job of several nodes.
#pragma once

#include <string>

#include "launcher/options/plan.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// Reports `why` to the job's coordinator, so that the other nodes do not wait for this one. Returns when the
// coordinator has received it, or cannot be reached for some seconds. Does nothing if this node may serve the
// coordinator itself, or is the only one. `tls`: --tls, as check_tls() has allowed it.
void report_unfit_node(const JobPlan& plan, const std::string& secret, bool tls, const Error& why);

}  // namespace dlaunch::launcher
