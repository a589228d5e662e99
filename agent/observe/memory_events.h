// Parses the kernel's texts about memory that ran out. Pure; OomWatch reads the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// N of the line "oom_kill N" in a cgroup's memory.events, in memory.oom_control, and in /proc/vmstat.
std::optional<std::uint64_t> oom_kills(std::string_view text);

// A limit in bytes; none for "max", and for the huge number that means "max" in cgroup v1.
std::optional<std::uint64_t> memory_limit(std::string_view text);

// A kill by the kernel, and whose limit had been reached. A kernel that kills often shortens its own messages
// and omits the path.
struct OomKill {
  bool of_a_cgroup = false;  // false: the machine's memory was full
  std::string cgroup;        // its path; empty if it is not known

  bool operator==(const OomKill&) const = default;
};

// The kernel log's record of the end of process `pid`; none: the kernel did not kill it for lack of memory.
std::optional<OomKill> killed_for_memory(std::string_view kernel_log, std::int64_t pid);

// "2 GiB", "1.5 MiB", "100 bytes".
std::string in_bytes(std::uint64_t bytes);

}  // namespace dlaunch::agent
