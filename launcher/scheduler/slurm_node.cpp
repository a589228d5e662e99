#include "launcher/scheduler/slurm_node.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace dlaunch::launcher {
namespace {

constexpr std::size_t longest_address = 255;  // DNS
constexpr std::string_view blanks = " \t\r\n";

// Removes the next word, and what is before it. Empty: there is none.
std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  const std::size_t end = std::min(text.find_first_of(blanks), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

// Values may have blanks, so a word that looks like a field may be a part of a comment. NodeName begins a
// record, and NodeAddr is before all values that a user can choose: the first of each counts.
std::optional<std::string_view> address_of(std::string_view printed, std::string_view node) {
  constexpr std::string_view name = "NodeName=";
  constexpr std::string_view address = "NodeAddr=";
  bool in_record = false;
  for (std::string_view rest = printed; !rest.empty();) {
    const std::string_view word = take_word(rest);
    if (word.starts_with(name)) {
      if (in_record) return std::nullopt;
      in_record = word.substr(name.size()) == node;
    } else if (in_record && word.starts_with(address)) {
      return word.substr(address.size());
    }
  }
  return in_record ? std::optional<std::string_view>("") : std::nullopt;
}

bool is_address(std::string_view text) {
  const auto fits = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '%';
  };
  return !text.empty() && text.size() <= longest_address && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), fits);
}

// scontrol reports a failure in a line of its own.
std::string first_line(std::string_view printed) {
  constexpr std::size_t longest = 120;
  std::string line(printed.substr(0, std::min({printed.find('\n'), printed.size(), longest})));
  for (char& c : line) {
    if (std::isprint(static_cast<unsigned char>(c)) == 0) c = '?';
  }
  return line;
}

Error reason(std::string text) { return {ErrorKind::not_found, std::move(text), "", "", ""}; }

}  // namespace

Result<std::string> slurm_node_address(std::string_view printed, const std::string& node) {
  const auto address = address_of(printed, node);
  if (!address) {
    const std::string line = first_line(printed);
    return reason(line.empty() ? "scontrol prints nothing about it" : "scontrol prints '" + line + "'");
  }
  if (*address == node) return reason("its NodeAddr is the same name");
  if (!is_address(*address)) return reason("scontrol prints no valid NodeAddr for it");
  return std::string(*address);
}

}  // namespace dlaunch::launcher
