#include "agent/observe/cpu_time.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "agent/platform/reaper.h"
#include "store/base/small_file.h"

namespace dlaunch::agent {
namespace {

// Behind the name in /proc/PID/stat: eleven fields, then four times in ticks: the process's own in user mode
// and in the kernel, and those of the children that it has waited for.
Duration cpu_time_of(std::int64_t pid) {
  constexpr std::size_t enough = 1024;
  constexpr int fields_before = 11;
  constexpr std::int64_t second = Duration(std::chrono::seconds(1)).count();
  const auto stat = read_plain_file("/proc/" + std::to_string(pid) + "/stat", enough);
  if (!stat) return Duration(0);
  std::istringstream fields(stat->text.substr(std::min(stat->text.size(), stat->text.rfind(')') + 1)));
  std::string skip;
  for (int i = 0; i < fields_before; ++i) fields >> skip;
  std::int64_t sum = 0;
  for (int i = 0; i < 4; ++i) {
    std::int64_t ticks = 0;
    fields >> ticks;
    sum += ticks;
  }
  return Duration(sum * (second / sysconf(_SC_CLK_TCK)));
}

}  // namespace

Duration cpu_time_of_tree(std::int64_t pid) {
  Duration sum = cpu_time_of(pid);
  for (const pid_t child : descendants_of(static_cast<pid_t>(pid))) sum += cpu_time_of(child);
  return sum;
}

}  // namespace dlaunch::agent
