// From settings, which are words, to Options, which are values.
#pragma once

#include "launcher/options/options.h"

namespace dlaunch::launcher {

// Everything but the program. Each mistake is named with where it came from.
Result<Options> options_from_settings(const Settings& settings);

// The log flags alone.
Result<agent::LogOptions> parse_log_flags(const Settings& settings);

}  // namespace dlaunch::launcher
