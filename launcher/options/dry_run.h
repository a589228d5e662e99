// What --dry-run prints. Pure.
#pragma once

#include <optional>
#include <string>

#include "launcher/options/options.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// A node's place among others, as far as it is known before the nodes meet.
struct NodePlace {
  std::optional<int> base_rank;   // none: not known before all nodes have counted their workers
  std::optional<int> world_size;  // none: as above
  bool elsewhere = false;         // on another machine, whose CPUs are not known here
};

// Describes the job, and then each worker of this node: its command, its CPUs, and the variables that differ
// from `environment`. Lines that are the same for all workers are printed once. Without a place, every node
// is assumed to have as many workers as this one. With options.verbose also the source of each setting.
std::string dry_run(const Options& options, const JobPlan& plan, const EnvironmentMap& environment,
                    const std::optional<NodePlace>& place = {});

}  // namespace dlaunch::launcher
