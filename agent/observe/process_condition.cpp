#include "agent/observe/process_condition.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "store/base/small_file.h"

namespace dlaunch::agent {

// Behind the name in /proc/PID/stat: the state's letter, five numbers, the flags. The flags show the end
// earlier than the state does.
Condition condition_of(std::int64_t pid) {
  constexpr std::size_t enough = 1024;
  constexpr unsigned exiting = 0x4;  // PF_EXITING
  const auto stat = read_plain_file("/proc/" + std::to_string(pid) + "/stat", enough);
  if (!stat) return Condition::ended;
  std::istringstream fields(stat->text.substr(std::min(stat->text.size(), stat->text.rfind(')') + 1)));
  char state = '?';
  std::string skip;
  unsigned flags = 0;
  fields >> state;
  for (int i = 0; i < 5; ++i) fields >> skip;
  fields >> flags;
  if (state == 'Z' || state == 'X' || (flags & exiting) != 0) return Condition::ended;
  return state == 'T' || state == 't' ? Condition::stopped : Condition::runs;
}

}  // namespace dlaunch::agent
