// Values as Python's pickle.load() reads them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dlaunch::launcher {

// Protocol 2: objects become dicts, arrays become lists, strings become str (invalid UTF-8 becomes U+FFFD).
// REQUIRES: the nesting fits on the stack, and no string is longer than 4 GiB.
std::string pickled(const nlohmann::ordered_json& value);

}  // namespace dlaunch::launcher
