// Which ranks share a node, as MPICH reads it. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job.h"

namespace dlaunch::agent {

// "(vector,(0,2,4),(2,1,3))": from node 0 two nodes of four ranks each, then from node 2 one of three. Empty:
// it would not fit a value of PMI, or the blocks are not known; MPICH then compares the names of the hosts.
std::string process_mapping(const std::vector<NodeBlock>& blocks);

}  // namespace dlaunch::agent
