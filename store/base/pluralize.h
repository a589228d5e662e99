#pragma once

#include <string>

namespace dlaunch::agent {

// "1 node", "2 nodes".
inline std::string pluralize(int n, const char* thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace dlaunch::agent
