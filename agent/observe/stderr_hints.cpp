#include "agent/observe/stderr_hints.h"

#include <csignal>
#include <optional>

#include "agent/model/exit_status.h"
#include "store/base/sanitize.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t longest_hint = 300;

// The text between the last `before` and the next `after`; none if one of them is missing.
std::optional<std::string_view> between_last(std::string_view text, std::string_view before,
                                             std::string_view after) {
  const std::size_t found = text.rfind(before);
  if (found == std::string_view::npos) return std::nullopt;
  text.remove_prefix(found + before.size());
  const std::size_t end = text.find(after);
  if (end == std::string_view::npos) return std::nullopt;
  return text.substr(0, end);
}

std::string line(std::string_view text) {
  return shortened(sanitize_for_terminal(text.substr(0, text.find('\n'))), longest_hint);
}

// The text that the C++ library's terminate handler writes.
std::string uncaught_exception(std::string_view text) {
  const auto type = between_last(text, "terminate called after throwing an instance of '", "'\n");
  if (!type) return "";
  constexpr std::string_view what = "  what():  ";
  const std::size_t found = text.rfind(what);
  if (found == std::string_view::npos) return "uncaught exception of type " + line(*type);
  return line(*type) + ": " + line(text.substr(found + what.size()));
}

}  // namespace

// From the text that the dynamic linker writes.
std::string missing_library(std::string_view last_lines) {
  const auto name =
      between_last(last_lines, "error while loading shared libraries: ", ": cannot open shared object file");
  return name ? line(*name) : "";
}

std::string hint_from_output(std::string_view last_lines, const ExitStatus& status) {
  const std::string text = std::string(last_lines) + "\n";
  if (status.shell_code() == 128 + SIGABRT) return uncaught_exception(text);
  if (status.shell_code() != not_found_code) return "";
  const std::string library = missing_library(text);
  return library.empty() ? "" : "the shared library " + library + " was not found";
}

}  // namespace dlaunch::agent
