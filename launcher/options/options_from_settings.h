// From Settings, which are words, to Options, which are values. Pure.
#pragma once

#include "launcher/options/options.h"

namespace dlaunch::launcher {

// Everything except the program. The error is the first mistake, with its source.
Result<Options> options_from_settings(const Settings& settings);

// The log flags alone.
Result<agent::LogOptions> parse_log_flags(const Settings& settings);

}  // namespace dlaunch::launcher
