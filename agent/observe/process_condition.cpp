#include "agent/observe/process_condition.h"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>

#include "store/base/small_file.h"

namespace dlaunch::agent {

namespace {

struct Stat {
  char state = '?';
  unsigned flags = 0;
};

// Behind the name in /proc/PID/stat: the state's letter, five numbers, the flags. None: no such process.
std::optional<Stat> stat_of(std::int64_t pid) {
  constexpr std::size_t enough = 1024;
  const auto stat = read_plain_file("/proc/" + std::to_string(pid) + "/stat", enough);
  if (!stat) return std::nullopt;
  std::istringstream fields(stat->text.substr(std::min(stat->text.size(), stat->text.rfind(')') + 1)));
  Stat found;
  std::string skip;
  fields >> found.state;
  for (int i = 0; i < 5; ++i) fields >> skip;
  fields >> found.flags;
  return found;
}

// The flags show the end earlier than the state does.
bool has_ended(const std::optional<Stat>& stat) {
  constexpr unsigned exiting = 0x4;  // PF_EXITING
  return !stat || stat->state == 'Z' || stat->state == 'X' || (stat->flags & exiting) != 0;
}

// " (futex_wait_queue)"; empty: it may not be read.
std::string kernel_function(std::int64_t pid) {
  constexpr std::size_t longest = 64;
  const auto where = read_plain_file("/proc/" + std::to_string(pid) + "/wchan", longest);
  return !where || where->text.empty() || where->text == "0" ? "" : " (" + where->text + ")";
}

}  // namespace

Condition condition_of(std::int64_t pid) {
  const auto stat = stat_of(pid);
  if (has_ended(stat)) return Condition::ended;
  return stat->state == 'T' || stat->state == 't' ? Condition::stopped : Condition::runs;
}

std::string state_of(std::int64_t pid) {
  const auto stat = stat_of(pid);
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
