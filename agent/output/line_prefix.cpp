#include "agent/output/line_prefix.h"

#include <array>
#include <utility>

namespace dlaunch::agent {

std::string expand_prefix(std::string_view text, const PrefixFacts& facts) {
  const std::array<std::pair<std::string_view, std::string>, 5> placeholders = {{
      {"${role_name}", facts.role},
      {"${rank}", std::to_string(facts.rank)},
      {"${local_rank}", std::to_string(facts.local_rank)},
      {"${host}", facts.host},
      {"${hostname}", facts.host},
  }};
  std::string out;
  while (!text.empty()) {
    bool replaced = false;
    for (const auto& [placeholder, value] : placeholders) {
      if (!text.starts_with(placeholder)) continue;
      out += value;
      text.remove_prefix(placeholder.size());
      replaced = true;
      break;
    }
    if (replaced) continue;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

std::string with_time(std::string prefix, std::string_view time) {
  for (std::size_t at = prefix.find(time_placeholder); at != std::string::npos;
       at = prefix.find(time_placeholder, at + time.size()))
    prefix.replace(at, time_placeholder.size(), time);
  return prefix;
}

std::string coloured(const std::string& prefix, int rank) {
  // Readable on light and dark backgrounds; no red, which means an error.
  static constexpr std::array colours = {"36", "33", "32", "35", "34", "96", "93", "92"};
  const auto index = static_cast<std::size_t>(rank) % colours.size();
  return std::string("\x1b[").append(colours.at(index)).append("m").append(prefix).append("\x1b[0m");
}

void add_prefixed(std::string_view lines, std::string_view prefix, std::string& out) {
  while (!lines.empty()) {
    std::size_t end = lines.find_first_of("\r\n");
    if (end == std::string_view::npos) {
      end = lines.size();
    } else {
      end += lines.substr(end).starts_with("\r\n") ? 2 : 1;
    }
    out.append(prefix).append(lines.substr(0, end));
    lines.remove_prefix(end);
  }
}

}  // namespace dlaunch::agent
