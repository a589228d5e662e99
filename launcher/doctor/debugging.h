// What this machine has for those who look for a bug: debuggers, the right to attach them, core dumps. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/doctor/finding.h"

namespace dlaunch::launcher {

struct DebuggingFacts {
  std::string gdb;     // its path; empty: not installed
  std::string py_spy;  // the same
  // kernel.yama.ptrace_scope; none: the kernel has no such setting, and a user may attach to own processes.
  std::optional<int> ptrace_scope;
  bool may_trace_all = false;  // CAP_SYS_PTRACE: the setting does not matter, unless it is 3
  // Bytes; the largest number: unlimited.
  std::uint64_t core_soft = 0;
  std::uint64_t core_hard = 0;
  std::string core_pattern;  // kernel.core_pattern; empty: not known
  std::string folder;        // of a core file if the pattern has no folder of its own: the working directory
};

Findings check_debugging(const DebuggingFacts& facts);

}  // namespace dlaunch::launcher
