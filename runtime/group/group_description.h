// What a process knows of a group: its name, its members and their hosts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::internal {

struct GroupDescription {
  std::string name;
  int rank;  // -1: not a member
  int size;
  std::chrono::milliseconds timeout;  // the initial one; set_timeout() changes the group's, not this
  std::string backend;                // as get_backend() returns it
  std::vector<int> ranks = {};        // the members' ranks in the default group; empty: 0 to size - 1
  int global_rank = -1;               // of this process in the default group, also if it is not a member
  // By rank in this group; empty: unknown.
  std::vector<std::string> hosts = {};
  std::vector<bool> compares = {};      // at DebugLevel::detail when the ranks met
  std::optional<int> cuda_device = {};  // that the program has named for this rank
};

}  // namespace dlaunch::internal
