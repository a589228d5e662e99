// What --lifeline sets. Pure.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::launcher {

// The value of --lifeline: "KEY[,out][,err][,colours]".
struct LifelineTerms {
  std::string key;            // letters and digits; no line of another program begins with it
  bool terminal_out = false;  // the agent's stdout is shown on a terminal
  bool terminal_err = false;
  bool colours = false;

  bool operator==(const LifelineTerms&) const = default;
};
std::string to_text(const LifelineTerms& terms);
Result<LifelineTerms> parse_lifeline(const std::string& from, const std::string& text);

}  // namespace dlaunch::launcher
