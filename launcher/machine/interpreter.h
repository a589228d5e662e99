// Finds the Python that runs Python source.
#pragma once

#include <string>

#include "launcher/flags/settings.h"

namespace dlaunch::launcher {

// PYTHON_EXEC if it is set; else the interpreter of the active virtual environment (VIRTUAL_ENV); else that
// of the virtual environment that contains `own_path`, as a torchrun installed there does; else "python3"
// from PATH. A virtual environment without an executable python3 is skipped.
std::string python_interpreter(const EnvironmentMap& environment, const std::string& own_path);

// The path with which this program was started; links are not resolved. Empty: unknown.
std::string own_path();

}  // namespace dlaunch::launcher
