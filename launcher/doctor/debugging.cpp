#include "launcher/doctor/debugging.h"

#include <limits>

namespace dlaunch::launcher {
namespace {

using Grade = Finding::Grade;

Finding debuggers(const DebuggingFacts& facts) {
  const bool both = !facts.gdb.empty() && !facts.py_spy.empty();
  if (both)
    return {Grade::ok, "stacks of workers come from " + facts.gdb + " and, for Python, " + facts.py_spy, ""};
  if (!facts.gdb.empty()) {
    return {Grade::note, "gdb is installed, py-spy is not: stacks of Python programs show the interpreter",
            "pip install py-spy"};
  }
  if (!facts.py_spy.empty()) {
    return {Grade::note, "py-spy is installed, gdb is not: only Python programs have stacks in dlaunch dump",
            "install gdb"};
  }
  return {Grade::note, "neither gdb nor py-spy is installed: dlaunch dump shows no stacks",
          "install gdb; for Python: pip install py-spy"};
}

Finding attaching(const DebuggingFacts& facts) {
  const std::string setting = "kernel.yama.ptrace_scope";
  if (!facts.ptrace_scope || *facts.ptrace_scope == 0)
    return {Grade::ok, "a debugger may attach to this user's processes", ""};
  const std::string text = setting + " is " + std::to_string(*facts.ptrace_scope);
  constexpr int nobody = 3;
  if (*facts.ptrace_scope >= nobody) {
    return {Grade::note, text + ": no debugger may attach to a process until the machine starts again",
            "remove the setting from /etc/sysctl.d and restart the machine"};
  }
  if (facts.may_trace_all) return {Grade::ok, text + ", and this user may attach all the same", ""};
  return {Grade::note, text + ": a debugger may not attach to a process that it did not start",
          "for stacks of workers: sysctl " + setting +
              "=0, or run dlaunch dump as root (in a container: add the capability SYS_PTRACE)"};
}

std::string place_of_cores(const DebuggingFacts& facts) {
  const std::string& pattern = facts.core_pattern;
  if (pattern.starts_with('|')) return "by " + pattern.substr(1, pattern.find(' ') - 1);
  if (pattern.starts_with('/')) return "to " + pattern;
  return "to " + pattern + " in the worker's directory (now " + facts.folder + ")";
}

Finding core_dumps(const DebuggingFacts& facts) {
  if (facts.core_pattern.empty()) {
    return {Grade::note, "kernel.core_pattern is empty or cannot be read: a crash may leave no core dump",
            "sysctl kernel.core_pattern=core.%p"};
  }
  // The kernel ignores a limit of 0, but not of 1, when a program takes the dump (core(5)).
  const bool is_piped = facts.core_pattern.starts_with('|');
  if (facts.core_soft == 0 && !is_piped) {
    const std::string text = "a crash leaves no core dump: its size is limited to 0 (it would be written " +
                             place_of_cores(facts) + ")";
    if (facts.core_hard == 0)
      return {Grade::note, text, "raise the hard limit of cores (/etc/security/limits.conf), then ulimit -c"};
    return {Grade::note, text, "when you look for a crash: ulimit -c unlimited before dlaunch"};
  }
  const bool is_cut = !is_piped && facts.core_soft != std::numeric_limits<std::uint64_t>::max();
  return {Grade::ok,
          "core dumps are written " + place_of_cores(facts) +
              (is_cut ? ", cut at " + std::to_string(facts.core_soft >> 20U) + " MiB" : ""),
          ""};
}

}  // namespace

Findings check_debugging(const DebuggingFacts& facts) {
  return {debuggers(facts), attaching(facts), core_dumps(facts)};
}

}  // namespace dlaunch::launcher
