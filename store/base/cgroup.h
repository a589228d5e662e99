// The control group (cgroup) of this process. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

struct Cgroup {
  int version = 2;   // 1: the controller has a hierarchy of its own
  std::string path;  // below the mount point; "/" is its root

  bool operator==(const Cgroup&) const = default;
};

// The control group in which `controller` ("memory", "pids") accounts for this process, from
// /proc/self/cgroup. None: there are no cgroups.
std::optional<Cgroup> find_cgroup(std::string_view proc_self_cgroup, std::string_view controller);

// The parent; the root is its own parent.
std::string parent_cgroup(const std::string& path);

}  // namespace dlaunch::store
