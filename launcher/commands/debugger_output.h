// The output of debuggers, for people. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::launcher {

// The threads' stacks within what gdb writes when it attaches and lists them; all of it if it has no stacks.
std::string stacks_in(const std::string& gdb_output);

// The debuggers that are installed.
struct Debuggers {
  bool gdb = false;
  bool py_spy = false;
};

// What the user can install or change to see more of the stacks of a process: "no stacks: gdb is not
// installed (apt install gdb, or dnf install gdb)". `output`: the debugger's. Empty: nothing.
std::string advice_on_stacks(bool is_python, const Debuggers& installed, std::string_view output);

}  // namespace dlaunch::launcher
