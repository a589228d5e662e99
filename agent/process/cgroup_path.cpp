#include "agent/process/cgroup_path.h"

#include <algorithm>
#include <vector>

namespace dlaunch::agent {
namespace {

template <class Line>
void for_each_line(std::string_view text, Line&& line) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) words.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return words;
}

// The kernel writes blanks, tabs, newlines and backslashes of a path as \ooo.
std::string unescaped(std::string_view text) {
  const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
                        is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (!escape) {
      plain.push_back(text[i]);
      continue;
    }
    plain.push_back(
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0')));
    i += 3;
  }
  return plain;
}

// `path` as seen from `root`, both absolute: "/a/b" from "/a" is "/b"; "" is the root itself.
std::optional<std::string> below(const std::string& root, const std::string& path) {
  if (root == "/") return path == "/" ? "" : path;
  if (path == root) return "";
  if (path.starts_with(root + "/")) return path.substr(root.size());
  return std::nullopt;
}

}  // namespace

std::optional<std::string> cgroup_directory(std::string_view mountinfo, std::string_view proc_self_cgroup) {
  std::optional<std::string> path;
  for_each_line(proc_self_cgroup, [&](std::string_view line) {
    if (line.starts_with("0::/")) path = std::string(line.substr(3));
  });
  if (!path) return std::nullopt;

  std::optional<std::string> directory;
  // "36 35 0:30 ROOT MOUNT_POINT options [optional fields] - cgroup2 source options"
  for_each_line(mountinfo, [&](std::string_view line) {
    const std::size_t dash = line.find(" - ");
    const auto before = words_of(line.substr(0, dash));
    if (directory || dash == std::string_view::npos || before.size() < 5) return;
    if (!line.substr(dash + 3).starts_with("cgroup2 ")) return;
    if (const auto rest = below(unescaped(before[3]), *path)) directory = unescaped(before[4]) + *rest;
  });
  return directory;
}

}  // namespace dlaunch::agent
