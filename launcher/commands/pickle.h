// Values as Python's pickle.load() reads them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dlaunch::launcher {

// Protocol 2: objects become dicts, arrays lists, texts str (what is no UTF-8 in them becomes U+FFFD).
// REQUIRES: it is not nested deeper than the stack allows, and no text is longer than 4 GiB.
std::string pickled(const nlohmann::ordered_json& value);

}  // namespace dlaunch::launcher
