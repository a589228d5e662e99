// Reads the facts of this machine that a plan needs.
#pragma once

#include "launcher/options/options.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// Reads only the facts that `options` require.
MachineFacts collect_facts(const Options& options, const SchedulerEnvironment& scheduler_env);

}  // namespace dlaunch::launcher
