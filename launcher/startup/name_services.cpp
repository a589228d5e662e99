#include "launcher/startup/name_services.h"

#include <algorithm>

namespace dlaunch::launcher {
namespace {

constexpr std::string_view blanks = " \t\r";

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Empty: there are no more words.
std::string_view take_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

// A list of services, each followed by its actions in brackets.
bool are_built_in(std::string_view services) {
  bool in_brackets = false;
  for (std::string_view word = take_word(services); !word.empty(); word = take_word(services)) {
    in_brackets = in_brackets || word.starts_with('[');
    if (!in_brackets && word != "files" && word != "dns") return false;
    if (word.ends_with(']')) in_brackets = false;
  }
  return true;
}

}  // namespace

bool needs_modules(std::string_view configuration, std::string_view database) {
  while (!configuration.empty()) {
    std::string_view line = take_line(configuration);
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view name = line.substr(0, colon);
    if (take_word(name) == database) return !are_built_in(line.substr(colon + 1));
  }
  return false;
}

std::vector<std::string> addresses_in(std::string_view printed) {
  std::vector<std::string> addresses;
  while (!printed.empty()) {
    std::string_view line = take_line(printed);
    const std::string address(take_word(line));
    if (!address.empty() && std::find(addresses.begin(), addresses.end(), address) == addresses.end())
      addresses.push_back(address);
  }
  return addresses;
}

}  // namespace dlaunch::launcher
