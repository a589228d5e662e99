// What debuggers say, for people. Pure.
#pragma once

#include <string>
#include <string_view>

namespace dlaunch::launcher {

// Of what gdb writes when it attaches and lists the threads' stacks: the stacks. All of it if it has none.
std::string stacks_in(const std::string& gdb_output);

// The debuggers that are installed.
struct Debuggers {
  bool gdb = false;
  bool py_spy = false;
};

// What a person installs, or changes, to see more of the stacks of a process: "no stacks: gdb is not
// installed (apt install gdb, or dnf install gdb)". `output`: what the debugger said. Empty: nothing.
std::string advice_on_stacks(bool is_python, const Debuggers& installed, std::string_view output);

}  // namespace dlaunch::launcher
