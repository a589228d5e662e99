// What the last lines of a worker say of why it ended. Pure.
#pragma once

#include <string>
#include <string_view>

#include "agent/model/exit_status.h"

namespace dlaunch::agent {

// "std::runtime_error: no such vocabulary" for a C++ exception that nothing caught; for a shared library that
// was not found, its name and what to do. Empty: they say nothing of that kind that fits this end.
std::string hint_from_output(std::string_view last_lines, const ExitStatus& status);

}  // namespace dlaunch::agent
