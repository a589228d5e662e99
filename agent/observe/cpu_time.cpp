#include "agent/observe/cpu_time.h"

#include <unistd.h>

#include "agent/platform/reaper.h"
#include "store/base/process_stat.h"

namespace dlaunch::agent {
namespace {

// Its own, and that of the children that it has waited for.
Duration cpu_time_of(std::int64_t pid) {
  constexpr std::int64_t second = Duration(std::chrono::seconds(1)).count();
  const auto stat = process_stat(pid);
  if (!stat) return Duration(0);
  const std::int64_t ticks = stat->user + stat->system + stat->children_user + stat->children_system;
  return Duration(ticks * (second / sysconf(_SC_CLK_TCK)));
}

}  // namespace

Duration cpu_time_of_tree(std::int64_t pid) {
  Duration sum = cpu_time_of(pid);
  for (const pid_t child : descendants_of(static_cast<pid_t>(pid))) sum += cpu_time_of(child);
  return sum;
}

}  // namespace dlaunch::agent
