#include "agent/model/last_lines.h"

#include <algorithm>

#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

std::string with_bars(const std::string& text) {
  constexpr std::size_t longest_line = 500;
  std::string out;
  const std::string clean = sanitize_for_terminal(text, true);
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t end = std::min(clean.find('\n', at), clean.size());
    out += "\n  | " + shortened(clean.substr(at, end - at), longest_line);
    at = end + 1;
  }
  return out;
}

// Python prints the traceback to stderr, too: then one copy is enough.
bool says_it_too(const std::string& tail, const std::string& traceback) {
  const std::string clean = sanitize_for_terminal(tail, true);
  std::size_t begin = traceback.rfind('\n');
  begin = begin == std::string::npos ? 0 : begin + 1;
  return clean.find(traceback.substr(begin)) != std::string::npos;
}

// Removes white space at the lines' ends: a terminal adds carriage returns.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t last = line.find_last_not_of(" \t\r");
    lines.push_back(line.substr(0, last == std::string_view::npos ? 0 : last + 1));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

bool are_shown(std::string_view lines, std::string_view screen) {
  const std::vector<std::string_view> wanted = split(lines);
  const std::vector<std::string_view> shown = split(screen);
  const auto ends = [](std::string_view line, std::string_view on_screen) {
    return on_screen.ends_with(line);
  };
  for (std::size_t first = 0; first + wanted.size() <= shown.size(); ++first) {
    const auto here = shown.begin() + static_cast<std::ptrdiff_t>(first);
    if (!wanted.empty() && std::equal(wanted.begin(), wanted.end(), here, ends)) return true;
  }
  return false;
}

std::vector<std::string> last_lines_of(const Failure& failure, bool is_shown) {
  std::vector<std::string> paragraphs;
  const std::string rank = "rank " + std::to_string(failure.rank);
  if (!failure.traceback.empty() && !says_it_too(failure.tail, failure.traceback))
    paragraphs.push_back((failure.traceback.starts_with("#0 ")
                              ? "the stack of " + rank + " when it crashed:"
                              : "the last lines of " + rank + "'s traceback:") +
                         with_bars(failure.traceback));
  if (!failure.tail.empty() && !is_shown)
    paragraphs.push_back("the last lines that " + rank + " wrote to " +
                         (failure.tail_is_of_stdout ? "stdout (nothing to stderr):" : "stderr:") +
                         with_bars(failure.tail));
  return paragraphs;
}

}  // namespace dlaunch::agent
