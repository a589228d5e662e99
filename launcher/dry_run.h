// What --dry-run prints.
#pragma once

#include <string>

#include "launcher/options.h"
#include "launcher/plan.h"

namespace dlaunch::launcher {

// The job, and then each worker of this node: its command, its CPUs, and its variables as far as they differ
// from `environment`. What all workers have alike stands once. Ranks are given for as many workers on every
// node as on this one. With options.verbose also where each setting came from.
std::string dry_run(const Options& options, const JobPlan& plan, const EnvironmentMap& environment);

}  // namespace dlaunch::launcher
