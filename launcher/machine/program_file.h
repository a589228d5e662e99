// What the file that a person wants started says of itself.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

// Whether it is Python source whatever it is called: who comes from torchrun, which starts everything with
// Python, names such files as they are. By what lies there: a directory with __main__.py, or a regular file
// that may not be executed and is not plainly something else (a compiled program, a script whose first line
// names another interpreter). Not what PATH has under this name, nor what may be executed: that is started
// itself.
bool is_python_source(const std::string& program);

// That the interpreter which a script's first line names is there: the kernel's own answer looks as if the
// script were not. `path`: as find_program() found it.
Result<void> check_interpreter(const std::string& path);

// What a person may have meant by a program that is not there, as it is to be typed: of the same folder if it
// was named with one, else on PATH or here. Empty: nothing is near enough.
std::string similar_program(const std::string& typed);

}  // namespace dlaunch::launcher
