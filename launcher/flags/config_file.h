// --config: a JSON object whose keys are flag names, with dashes or underscores, and whose values are
// strings, numbers, true, false, or lists of these (joined by commas).
//
//   {"nproc-per-node": 4, "max_restarts": 3, "local-ranks-filter": [0, 1], "standalone": true}
#pragma once

#include <string>

#include "launcher/flags/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// `path`: for messages. Errors are the user's mistakes (ErrorKind::invalid).
Result<Settings> settings_from_json(const std::string& text, const std::string& path);

}  // namespace dlaunch::launcher
