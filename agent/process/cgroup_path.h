// Where the control group (cgroup v2) of this process lies in the file system, read from the kernel's texts.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// From /proc/self/mountinfo and /proc/self/cgroup. None: version 2 is not mounted, or only a part of it that
// we are not in (a container may see its host's path).
std::optional<std::string> cgroup_directory(std::string_view mountinfo, std::string_view proc_self_cgroup);

}  // namespace dlaunch::agent
