// What --dry-run prints where hosts are named. Pure.
#pragma once

#include <functional>
#include <string>

#include "launcher/options/options.h"
#include "launcher/options/plan.h"
#include "launcher/remote/remote_plan.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// What the plan asks of a machine. It is asked of every host: of another than this one what is the same there
// is to be told, the rest as if nothing were known.
using FactsOf = std::function<MachineFacts(const Options& options, bool here)>;

// Each host: how its dlaunch is started, and that one's own dry run, as far as it is known here: the ranks
// end where a host decides itself how many workers it has. `here`: the environment of this machine;
// `carried`: what every host gets of it.
Result<std::string> dry_run_on_hosts(const RemotePlan& plan, const EnvironmentMap& here,
                                     const EnvironmentMap& carried, const FactsOf& facts);

}  // namespace dlaunch::launcher
