// Which programs are Python source whatever they are called: who comes from torchrun, which starts everything
// with Python, names such files as they are.
#pragma once

#include <string>

namespace dlaunch::launcher {

// By what lies there: a directory with __main__.py, or a regular file that may not be executed and is not
// plainly something else (a compiled program, a script whose first line names another interpreter). Not what
// PATH has under this name, nor what may be executed: that is started itself.
bool is_python_source(const std::string& program);

}  // namespace dlaunch::launcher
