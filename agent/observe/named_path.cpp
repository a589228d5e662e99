#include "agent/observe/named_path.h"

#include <algorithm>

namespace dlaunch::agent {
namespace {

constexpr std::string_view quotes = "'\"`";

bool is_printable(std::string_view path) {
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; });
}

// The text in quotes at the begin of `rest`.
std::string_view quoted(std::string_view rest) {
  if (rest.empty() || quotes.find(rest.front()) == std::string_view::npos) return "";
  const std::size_t end = rest.find(rest.front(), 1);
  return end == std::string_view::npos ? "" : rest.substr(1, end - 1);
}

// The last word of `line`, or the last text in quotes.
std::string_view last_word(std::string_view line) {
  if (!line.empty() && quotes.find(line.back()) != std::string_view::npos) {
    const char quote = line.back() == '\'' && line.find('`') != std::string_view::npos ? '`' : line.back();
    line.remove_suffix(1);
    const std::size_t begin = line.rfind(quote);
    return begin == std::string_view::npos ? "" : line.substr(begin + 1);
  }
  return line.substr(line.rfind(' ') + 1);
}

}  // namespace

std::string path_in_error(std::string_view last_lines, std::string_view kind) {
  const std::size_t found = last_lines.rfind(kind);
  if (found == std::string_view::npos) return "";
  constexpr std::string_view colon = ": ";
  std::string_view after = last_lines.substr(found + kind.size());
  after = after.substr(0, after.find('\n'));
  std::string_view before = last_lines.substr(0, found);
  before.remove_prefix(before.rfind('\n') + 1);
  std::string_view path = after.starts_with(colon) ? quoted(after.substr(colon.size())) : "";
  if (path.empty() && before.ends_with(colon))
    path = last_word(before.substr(0, before.size() - colon.size()));
  return path.find('/') != std::string_view::npos && is_printable(path) ? std::string(path) : "";
}

}  // namespace dlaunch::agent
