#include "agent/placement.h"

#include <algorithm>

namespace dlaunch::agent {

void place(std::vector<Join> nodes, World& world) {
  std::sort(nodes.begin(), nodes.end(),
            [](const Join& a, const Join& b) { return a.node_rank < b.node_rank; });
  world.members.clear();
  world.world_size = 0;
  for (const Join& node : nodes) {
    world.members.push_back({node.node_rank, node.slots, world.world_size, node.host});
    world.world_size += node.slots;
  }
}

}  // namespace dlaunch::agent
