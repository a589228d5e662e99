// The rules between flags. Pure.
#pragma once

#include "launcher/options/options.h"
#include "launcher/options/settings_reader.h"

namespace dlaunch::launcher {

// Fails `in` for flags that exclude each other or do not fit, and adds warnings to `out` about those that
// have no effect together. REQUIRES: every flag has been read into `out`.
void check_combinations(SettingsReader& in, Options& out);

}  // namespace dlaunch::launcher
