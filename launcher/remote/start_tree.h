// Which host starts which other ones. Pure.
#pragma once

#include <vector>

namespace dlaunch::launcher {

inline constexpr int started_from_here = -1;

// For each host the one that starts it, always an earlier one, or started_from_here. `from_here`: by host:
// it cannot be started by another one, and starts none. If there are more than `width` others, no host and
// not this machine starts more than `width` of them. 0: this machine starts all.
std::vector<int> start_tree(const std::vector<bool>& from_here, int width);

}  // namespace dlaunch::launcher
