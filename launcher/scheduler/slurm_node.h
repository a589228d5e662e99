// What `scontrol show node` prints about a node.
#pragma once

#include <string>
#include <string_view>

#include "store/base/result.h"

namespace dlaunch::launcher {

// The address or name (NodeAddr) at which Slurm reaches `node`. `printed`: any bytes; in scontrol's format it
// has a record for each node, on one line or on several. An error: there is none that differs from the node's
// name; its message is the reason.
Result<std::string> slurm_node_address(std::string_view printed, const std::string& node);

}  // namespace dlaunch::launcher
