// What --dry-run prints.
#pragma once

#include <optional>
#include <string>

#include "launcher/options/options.h"
#include "launcher/options/plan.h"

namespace dlaunch::launcher {

// Where a node stands among others that are known beforehand, and what is known of them.
struct NodePlace {
  std::optional<int> base_rank;   // none: not known before all have counted their workers
  std::optional<int> world_size;  // likewise
  bool elsewhere = false;         // on another machine, whose CPUs are not known here
};

// The job, and then each worker of this node: its command, its CPUs, and its variables as far as they differ
// from `environment`. What all workers have alike stands once. Without a
// place ranks are given for as many workers on every node as on this one. With options.verbose also where
// each setting came from.
std::string dry_run(const Options& options, const JobPlan& plan, const EnvironmentMap& environment,
                    const std::optional<NodePlace>& place = {});

}  // namespace dlaunch::launcher
