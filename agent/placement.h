// Which ranks a node's workers get.
#pragma once

#include <vector>

#include "agent/messages.h"

namespace dlaunch::agent {

// Fills world.members and world.world_size: nodes in the order of their node ranks, each with contiguous
// ranks. Nodes may have different numbers of workers.
void place(std::vector<Join> nodes, World& world);

}  // namespace dlaunch::agent
