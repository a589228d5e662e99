// The library's log. dlaunch/debug.h describes which messages are shown.
#pragma once

#include <string>

#include "dlaunch/debug.h"

namespace dlaunch::internal {

inline bool logs(LogLevel level) { return level <= get_log_level(); }

// Any thread.
void log(LogLevel level, const std::string& message);

}  // namespace dlaunch::internal
