#include "launcher/options/lifeline_terms.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "launcher/flags/value_parsers.h"

namespace dlaunch::launcher {

std::string to_text(const LifelineTerms& terms) {
  return terms.key + (terms.terminal_out ? ",out" : "") + (terms.terminal_err ? ",err" : "") +
         (terms.colours ? ",colours" : "");
}

Result<LifelineTerms> parse_lifeline(const std::string& from, const std::string& text) {
  const std::vector<std::string> parts = comma_list(text);
  const auto is_plain = [](const std::string& key) {
    return std::all_of(key.begin(), key.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
  };
  LifelineTerms terms;
  bool good = !parts.empty() && !parts.front().empty() && is_plain(parts.front());
  if (good) terms.key = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i] == "out") {
      terms.terminal_out = true;
    } else if (parts[i] == "err") {
      terms.terminal_err = true;
    } else if (parts[i] == "colours") {
      terms.colours = true;
    } else {
      good = false;
    }
  }
  if (!good) return usage(from + ": '" + text + "' is not KEY[,out][,err][,colours]");
  return terms;
}

}  // namespace dlaunch::launcher
