// Inspects the file of the program to be started.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Whether it is Python source, whatever its name: torchrun starts everything with Python, so its users pass
// such files as they are. True for a directory with __main__.py, and for a regular file that is not
// executable and not clearly something else (a compiled program, a script whose first line names another
// interpreter). False for a program on PATH, and for an executable file: these are started directly.
bool is_python_source(const std::string& program);

// Checks that the interpreter in a script's first line exists: the kernel's own error looks as if the script
// were missing. `path`: the result of find_program().
Result<void> check_interpreter(const std::string& path);

// A suggestion for a program that does not exist, as it must be typed: from the same directory if one was
// given, else from PATH or the current directory. Empty: nothing is similar enough.
std::string similar_program(const std::string& typed);

}  // namespace dlaunch::launcher
