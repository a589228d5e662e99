#include "agent/pmi/pmi_request.h"

#include <algorithm>
#include <utility>

namespace dlaunch::agent {

std::optional<PmiRequest> PmiRequest::parse(std::string_view line) {
  const auto is_printable = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(line.begin(), line.end(), is_printable)) return std::nullopt;
  PmiRequest request;
  while (!line.empty()) {
    const std::string_view word = line.substr(0, line.find(' '));
    line.remove_prefix(std::min(word.size() + 1, line.size()));
    const std::size_t sign = word.find('=');
    if (word.empty()) continue;
    if (sign == 0) return std::nullopt;
    if (sign != std::string_view::npos) {
      request.pairs_.emplace_back(word.substr(0, sign), word.substr(sign + 1));
    } else if (request.pairs_.empty()) {
      return std::nullopt;
    } else {
      request.pairs_.back().second.append(" ").append(word);
    }
  }
  const bool has_command = !request.pairs_.empty() &&
                           (request.pairs_.front().first == "cmd" || request.pairs_.front().first == "mcmd");
  return has_command ? std::optional(std::move(request)) : std::nullopt;
}

std::optional<std::string> PmiRequest::value(std::string_view name) const {
  const auto found =
      std::find_if(pairs_.begin() + 1, pairs_.end(), [&](const auto& pair) { return pair.first == name; });
  return found == pairs_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace dlaunch::agent
