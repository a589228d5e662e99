// Whether the kernel's out-of-memory killer struck in this process's control group.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlaunch::agent {

class OomWatch {
 public:
  // Remembers how often it had struck before. `cgroup_root` is where the unified hierarchy is mounted,
  // `own_cgroup` what /proc/self/cgroup says.
  explicit OomWatch(const std::string& cgroup_root = "/sys/fs/cgroup", const std::string& own_cgroup = own());

  // For a worker that SIGKILL ended: "the kernel's out-of-memory killer (the limit is 2.0 GiB)" if it has
  // struck since the last call; else empty, also where that cannot be known.
  std::string explain();

 private:
  static std::string own();
  [[nodiscard]] std::optional<std::uint64_t> kills() const;

  std::string dir_;  // empty: no unified hierarchy
  std::optional<std::uint64_t> known_;
};

}  // namespace dlaunch::agent
