// The output of --dry-run for a job on named hosts. Pure.
#pragma once

#include <functional>
#include <string>

#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/remote/remote_plan.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// Returns the facts of a host that the plan needs. For a host other than this one: only facts that are the
// same there, and defaults for the rest.
using FactsOf = std::function<MachineFacts(const Options& options, bool here)>;

// For each host: how its dlaunch is started, and that dlaunch's own dry run, as far as it is known here.
// Ranks are omitted after a host that counts its workers itself. `here`: the environment of this machine;
// `carried`: the part of it that every host gets.
Result<std::string> dry_run_on_hosts(const RemotePlan& plan, const EnvironmentMap& here,
                                     const EnvironmentMap& carried, const FactsOf& facts);

}  // namespace dlaunch::launcher
