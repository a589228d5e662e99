// The flags about failures, restarts, signals and the end of a job. Pure.
#pragma once

#include "launcher/options/options.h"
#include "launcher/options/settings_reader.h"

namespace dlaunch::launcher {

void parse_failure_flags(SettingsReader& in, Options& out);

}  // namespace dlaunch::launcher
