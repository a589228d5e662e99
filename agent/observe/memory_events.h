// The kernel's texts about memory that ran out, read. Pure; the files are read by OomWatch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace dlaunch::agent {

// "oom_kill N" as it stands in a cgroup's memory.events, in memory.oom_control, and in /proc/vmstat.
std::optional<std::uint64_t> oom_kills(std::string_view text);

// A limit in bytes; none for "max", and for the huge number that means it in cgroup v1.
std::optional<std::uint64_t> memory_limit(std::string_view text);

// A kill of the kernel's, and whose limit had been reached. A kernel that kills often cuts its own words
// short and leaves the path out.
struct OomKill {
  bool of_a_cgroup = false;  // or the machine's memory was full
  std::string cgroup;        // its path; empty where it is not known

  bool operator==(const OomKill&) const = default;
};

// What the kernel's log says of the end of process `pid`; none: that it was not killed for want of memory.
std::optional<OomKill> killed_for_memory(std::string_view kernel_log, std::int64_t pid);

// "2 GiB", "1.5 MiB", "100 bytes".
std::string in_bytes(std::uint64_t bytes);

}  // namespace dlaunch::agent
