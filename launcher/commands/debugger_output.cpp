#include "launcher/commands/debugger_output.h"

namespace dlaunch::launcher {

std::string stacks_in(const std::string& gdb_output) {
  const std::string text = "\n" + gdb_output;
  const std::size_t begin = text.find("\nThread ");
  if (begin == std::string::npos) return gdb_output;
  const std::size_t end = text.find("\n[Inferior ", begin);
  std::string stacks = text.substr(begin + 1, end == std::string::npos ? end : end - begin - 1);
  while (stacks.ends_with('\n')) stacks.pop_back();
  return stacks + "\n";
}

std::string advice_on_stacks(bool is_python, const Debuggers& installed, std::string_view output) {
  if (output.find("Operation not permitted") != std::string_view::npos)
    return "no stacks: the debugger may not attach; run dlaunch dump as root, or set "
           "kernel.yama.ptrace_scope to 0 (in a container: add the capability SYS_PTRACE)";
  constexpr std::string_view get_py_spy = "py-spy is not installed (pip install py-spy)";
  if (is_python && !installed.py_spy)
    return (installed.gdb ? "Python's own frames are not shown: " : "no stacks: ") + std::string(get_py_spy);
  if (!is_python && !installed.gdb)
    return "no stacks: gdb is not installed (apt install gdb, or dnf install gdb)";
  return "";
}

}  // namespace dlaunch::launcher
