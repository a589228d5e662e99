// Finds in a worker's last lines why it ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "agent/model/exit_status.h"

namespace dlaunch::agent {

// For an uncaught C++ exception: "std::runtime_error: no such vocabulary". For a shared library that was not
// found: its name. Empty: the lines hold neither, or it does not match this exit status.
std::string hint_from_output(std::string_view last_lines, const ExitStatus& status);

// The name of the shared library that the dynamic linker did not find; empty: the lines name none.
std::string missing_library(std::string_view last_lines);

}  // namespace dlaunch::agent
