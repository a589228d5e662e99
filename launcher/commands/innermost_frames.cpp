#include "launcher/commands/innermost_frames.h"

#include <algorithm>

namespace dlaunch::launcher {
namespace {

constexpr std::size_t longest = 100;

// Calls `take` with each line until it returns false.
void each_line(std::string_view text, auto&& take) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (!take(text.substr(at, end - at))) return;
    at = end + 1;
  }
}

// "    step (train.py:14)" without the folders of the file.
std::string python_frame(std::string_view line) {
  constexpr std::string_view before_file = " (";
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t file = line.find(before_file);
  if (file == std::string_view::npos) return std::string(line.substr(0, longest));
  const std::string_view path = line.substr(file + before_file.size());
  const std::size_t slash = path.rfind('/');
  const std::string_view name = path.substr(slash == std::string_view::npos ? 0 : slash + 1);
  return std::string(line.substr(0, std::min(file, longest)))
      .append(before_file)
      .append(name.substr(0, longest));
}

// "#3  0x00007f in c10d::wait (this=...) at x.cpp:4": the function.
std::string gdb_frame(std::string_view line) {
  const std::size_t in = line.find(" in ");
  const std::size_t begin = in != std::string_view::npos ? in + 4 : line.find_first_not_of("#0123456789 ");
  if (begin == std::string_view::npos) return "";
  line.remove_prefix(begin);
  return std::string(line.substr(0, std::min(line.find(" ("), longest)));
}

}  // namespace

std::vector<std::string> frames_of_py_spy(std::string_view text) {
  std::vector<std::string> frames;
  bool is_main = false;
  each_line(text, [&](std::string_view line) {
    if (line.starts_with("Thread ")) {
      if (is_main) return false;
      is_main = line.find("\"MainThread\"") != std::string_view::npos;
    } else if (is_main && line.starts_with("    ")) {
      frames.push_back(python_frame(line));
    }
    return frames.size() < shown_frames;
  });
  return frames;
}

std::vector<std::string> frames_of_gdb(std::string_view text) {
  std::vector<std::string> frames;
  int threads = 0;
  each_line(text, [&](std::string_view line) {
    if (line.starts_with("Thread ")) return ++threads < 2;
    if (!line.starts_with('#')) return true;
    if (std::string frame = gdb_frame(line); !frame.empty()) frames.push_back(std::move(frame));
    return frames.size() < shown_frames;
  });
  return frames;
}

}  // namespace dlaunch::launcher
