// A node that cannot start its part of a job of several nodes.
#pragma once

#include <string>

#include "launcher/options/plan.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// Tells the job's coordinator why, so that the other nodes do not wait for this one: returns when that one
// has heard it, or cannot be reached for some seconds. Does nothing where this node may serve the coordinator
// itself, and in a job of one node. `tls`: --tls, as check_tls() has allowed it.
void report_unfit_node(const JobPlan& plan, const std::string& secret, bool tls, const Error& why);

}  // namespace dlaunch::launcher
