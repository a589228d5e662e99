// Whether memory fits into the control group's limit. Reads small files of the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace dlaunch::internal {

// The mount points of the kernel's files.
struct MemoryLimitPlaces {
  std::string proc = "/proc";
  std::string cgroup = "/sys/fs/cgroup";
};

// Why `bytes` more do not fit, as a clause that names the limit: "memory.max of cgroup /job is 64 MiB, of
// which 60 MiB are in use". None: they fit, or no limit is known.
std::optional<std::string> why_memory_does_not_fit(std::uint64_t bytes, const MemoryLimitPlaces& places = {});

}  // namespace dlaunch::internal
