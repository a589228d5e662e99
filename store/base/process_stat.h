// /proc/PID/stat: what the kernel shows of a process or a thread in one line (proc(5)).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/base/namespaces.h"

namespace dlaunch::store {

// Times in clock ticks, sysconf(_SC_CLK_TCK) of them a second.
struct ProcessStat {
  std::string name;  // the first 15 bytes; any characters
  // 'R' runs, 'S' sleeps, 'D' sleeps without interruption, 'T' and 't' stopped, 'Z' and 'X' ended
  char state = '?';
  pid_t parent = 0;
  std::uint64_t flags = 0;         // PF_*
  std::int64_t user = 0;           // time in user mode
  std::int64_t system = 0;         // and in the kernel
  std::int64_t children_user = 0;  // the same of the children that it has waited for
  std::int64_t children_system = 0;
  int threads = 0;
  std::uint64_t birth = 0;  // when it was started, since the machine was
  std::uint64_t resident_pages = 0;

  // The process has ended and waits to be reaped.
  [[nodiscard]] bool has_ended() const { return state == 'Z' || state == 'X'; }
};

// None: the line does not have this form.
std::optional<ProcessStat> parse_process_stat(std::string_view line);

// None: the process does not exist, or /proc cannot be read. `pid` is the number that /proc shows: /proc may
// be that of another process namespace.
std::optional<ProcessStat> process_stat(std::int64_t pid);

}  // namespace dlaunch::store
