// Shell completion, made from the table of flags and the list of commands. Pure.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

// `shell`: bash, zsh or fish. Returns the script that makes this shell complete dlaunch's flags and commands,
// and, after the program's name has begun, programs and files.
Result<std::string> completion_script(const std::string& shell);

}  // namespace dlaunch::launcher
