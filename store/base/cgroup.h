// Where a control group (cgroup) of this process is. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlaunch {

struct Cgroup {
  int version = 2;   // 1 where the controller is mounted in a hierarchy of its own
  std::string path;  // below the mount point; "/" is its root

  bool operator==(const Cgroup&) const = default;
};

// The one by which `controller` ("memory", "pids") accounts for this process, from /proc/self/cgroup. None:
// there are no cgroups.
std::optional<Cgroup> find_cgroup(std::string_view proc_self_cgroup, std::string_view controller);

// The next one on the way to the root, whose own is itself.
std::string parent_cgroup(const std::string& path);

}  // namespace dlaunch
