#include "agent/last_lines.h"

#include <algorithm>

#include "agent/printable.h"

namespace dlaunch::agent {
namespace {

std::string quoted(const std::string& text) {
  constexpr std::size_t longest_line = 500;
  std::string out;
  const std::string clean = printable(text, true);
  for (std::size_t at = 0; at < clean.size();) {
    const std::size_t end = std::min(clean.find('\n', at), clean.size());
    out += "\n  | " + shortened(clean.substr(at, end - at), longest_line);
    at = end + 1;
  }
  return out;
}

// Python prints the traceback to stderr as well: then one of both is enough.
bool says_it_too(const std::string& tail, const std::string& traceback) {
  const std::string clean = printable(tail, true);
  std::size_t begin = traceback.rfind('\n');
  begin = begin == std::string::npos ? 0 : begin + 1;
  return clean.find(traceback.substr(begin)) != std::string::npos;
}

}  // namespace

std::vector<std::string> last_lines_of(const Failure& failure) {
  std::vector<std::string> paragraphs;
  const std::string who = "rank " + std::to_string(failure.rank);
  if (!failure.traceback.empty() && !says_it_too(failure.tail, failure.traceback))
    paragraphs.push_back("the last lines of " + who + "'s traceback:" + quoted(failure.traceback));
  if (!failure.tail.empty())
    paragraphs.push_back("the last lines that " + who + " wrote to " +
                         (failure.tail_is_of_stdout ? "stdout (nothing to stderr):" : "stderr:") +
                         quoted(failure.tail));
  return paragraphs;
}

}  // namespace dlaunch::agent
