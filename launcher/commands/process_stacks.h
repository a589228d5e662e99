// Where the threads of a process are, from /proc, and from a debugger if one is installed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/commands/job_dump.h"
#include "store/base/time.h"

namespace dlaunch::launcher {

// The main thread, then the others by tid, of which some may be lower: the kernel starts again at pid_max.
// Only the first 64 threads. Only root can read kernel stacks.
std::vector<ThreadDump> threads_of(std::int64_t pid);

// Its program is a Python interpreter.
bool is_python(std::int64_t pid);

struct DebuggerOutput {
  std::string debugger;  // empty: none is installed
  std::string text;      // the stacks, or why there are none
  std::string advice;    // what to install or change to see more; empty: nothing
};

// Runs py-spy for Python, otherwise gdb. The process is paused meanwhile, at most until the deadline, and
// goes on afterwards, also if the debugger had to be killed.
DebuggerOutput run_debugger(std::int64_t pid, TimePoint deadline);

}  // namespace dlaunch::launcher
