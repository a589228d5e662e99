// What a plan needs to know of this machine, read from it.
#pragma once

#include "launcher/options/options.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// Only what `options` make necessary is read.
MachineFacts collect_facts(const Options& options, const SchedulerEnvironment& scheduler_env);

}  // namespace dlaunch::launcher
