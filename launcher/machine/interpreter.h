// Which Python starts Python source.
#pragma once

#include <string>

#include "launcher/flags/settings.h"

namespace dlaunch::launcher {

// PYTHON_EXEC where it is set; else the interpreter of the active virtual environment (VIRTUAL_ENV); else
// that of the virtual environment that `own_path` lies in, as a torchrun that is installed there uses
// its own; else "python3", which is searched on PATH. A virtual environment without an executable python3 is
// passed over.
std::string python_interpreter(const EnvironmentMap& environment, const std::string& own_path);

// The path by which this program was started: a link is not followed. Empty: unknown.
std::string own_path();

}  // namespace dlaunch::launcher
