// Where the threads of a process are, by /proc and by a debugger where one is installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/commands/job_dump.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// By tid; of a process with very many threads only the first ones. The kernel's own stacks are for root.
std::vector<ThreadDump> threads_of(std::int64_t pid);

struct DebuggerOutput {
  std::string debugger;  // empty: none is installed
  std::string text;      // its stacks, or why there are none
  std::string advice;    // what is to be installed or changed to see more; empty: nothing
};

// py-spy for Python, otherwise gdb. The process stands still meanwhile, until the deadline at most.
DebuggerOutput run_debugger(std::int64_t pid, TimePoint deadline);

}  // namespace dlaunch::launcher
