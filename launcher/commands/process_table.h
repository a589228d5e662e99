// The resource usage of this machine's processes, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>

namespace dlaunch::launcher {

struct ProcessUse {
  int processes = 0;
  int threads = 0;
  double cpu_s = 0;          // user and system time since their start
  std::uint64_t memory = 0;  // resident bytes; shared pages count for each
};

// One reading of all processes.
class ProcessTable {
 public:
  static ProcessTable read();

  // The sum over the process and its descendants; zeros if it has ended.
  [[nodiscard]] ProcessUse tree(pid_t root) const;

 private:
  std::map<pid_t, ProcessUse> own_;
  std::multimap<pid_t, pid_t> children_;
};

}  // namespace dlaunch::launcher
