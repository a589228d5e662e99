// Finds the directory of this process's cgroup (v2) from the kernel's texts. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// From /proc/self/mountinfo and /proc/self/cgroup. None: cgroup v2 is not mounted, or the mounted part does
// not contain this process (a container may see its host's path).
std::optional<std::string> cgroup_directory(std::string_view mountinfo, std::string_view proc_self_cgroup);

}  // namespace dlaunch::agent
