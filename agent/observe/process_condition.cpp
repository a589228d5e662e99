#include "agent/observe/process_condition.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "store/base/process_stat.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {

namespace {

// The flags show the end earlier than the state does.
bool has_ended(const std::optional<ProcessStat>& stat) {
  constexpr std::uint64_t exiting = 0x4;  // PF_EXITING
  return !stat || stat->has_ended() || (stat->flags & exiting) != 0;
}

// " (futex_wait_queue)"; empty: it may not be read.
std::string kernel_function(std::int64_t pid) {
  constexpr std::size_t longest = 64;
  const auto where = read_plain_file("/proc/" + std::to_string(pid) + "/wchan", longest);
  return !where || where->text.empty() || where->text == "0" ? "" : " (" + where->text + ")";
}

}  // namespace

Condition condition_of(std::int64_t pid) {
  const auto stat = process_stat(pid);
  if (has_ended(stat)) return Condition::ended;
  return stat->state == 'T' || stat->state == 't' ? Condition::stopped : Condition::runs;
}

std::string state_of(std::int64_t pid) {
  const auto stat = process_stat(pid);
  if (has_ended(stat)) return "";
  switch (stat->state) {
    case 'T':
      return "is stopped";
    case 't':
      return "is stopped by a debugger";
    case 'R':
      return "is running";
    case 'D':
      return "waits in the kernel without interruption" + kernel_function(pid);
    default:
      return "sleeps in the kernel" + kernel_function(pid);
  }
}

std::uint64_t resident_bytes(std::int64_t pid) {
  constexpr std::size_t enough = 256;
  const auto statm = read_plain_file("/proc/" + std::to_string(pid) + "/statm", enough);
  if (!statm) return 0;
  std::istringstream fields(statm->text);
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  fields >> size >> resident;
  return fields ? resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace dlaunch::agent
