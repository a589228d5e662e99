// What Slurm's controller knows, by scontrol(1).
#pragma once

#include <chrono>
#include <string>

#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// What `scontrol show node NODE` prints, its errors too: at most 64 KiB, within `patience`
// (launcher/scheduler/slurm_node.h reads it). An error, whose message is the reason: there is no scontrol, or
// no answer in time.
Result<std::string> show_slurm_node(const std::string& node, Duration patience = std::chrono::seconds(5));

}  // namespace dlaunch::launcher
