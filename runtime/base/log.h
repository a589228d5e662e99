// What the library has to say besides its errors. See dlaunch/debug.h for who sees it.
#pragma once

#include <string>

#include "dlaunch/debug.h"

namespace dlaunch {

inline bool logs(LogLevel level) { return level <= get_log_level(); }

// Any thread.
void log(LogLevel level, const std::string& message);

}  // namespace dlaunch
