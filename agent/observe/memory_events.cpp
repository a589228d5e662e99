#include "agent/observe/memory_events.h"

#include <array>
#include <cstdio>
#include <utility>

#include "store/base/number.h"

namespace dlaunch::agent {
namespace {

// Calls `each` with every line until it returns true.
template <class F>
void find_line(std::string_view text, F&& each) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (each(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<std::uint64_t> number(std::string_view text) {
  return parse_number<std::uint64_t>(text.substr(0, text.find('\n')));
}

// The value of "name=value" in a list with commas; nullopt if there is none.
std::optional<std::string_view> field(std::string_view line, std::string_view name) {
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    const bool begins = at == 0 || line[at - 1] == ',' || line[at - 1] == ':';
    const std::size_t value = at + name.size();
    if (!begins || value >= line.size() || line[value] != '=') continue;
    return line.substr(value + 1, line.find(',', value) - value - 1);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> oom_kills(std::string_view text) {
  constexpr std::string_view name = "oom_kill ";
  std::optional<std::uint64_t> found;
  find_line(text, [&](std::string_view line) {
    if (line.starts_with(name)) found = number(line.substr(name.size()));
    return found.has_value();
  });
  return found;
}

std::optional<std::uint64_t> memory_limit(std::string_view text) {
  constexpr std::uint64_t unlimited = 1ULL << 62;
  const auto value = number(text);
  return value && *value < unlimited ? value : std::nullopt;
}

std::optional<OomKill> killed_for_memory(std::string_view kernel_log, std::int64_t pid) {
  const std::string victim = std::to_string(pid);
  const std::string killed = "Killed process " + victim + " ";
  std::optional<OomKill> kill;
  std::string limit_of;  // the cgroup named for this process in the line before a kill
  find_line(kernel_log, [&](std::string_view line) {
    if (line.find("oom-kill:") != std::string_view::npos && field(line, "pid") == victim) {
      limit_of = std::string(field(line, "oom_memcg").value_or(""));
    }
    const std::size_t words = line.find("ut of memory");  // or "Memory cgroup out of memory"
    if (words != std::string_view::npos && line.find(killed, words) != std::string_view::npos) {
      kill = OomKill{line.find("Memory cgroup o") != std::string_view::npos, std::exchange(limit_of, "")};
    }
    return false;  // pids are reused: the last line counts
  });
  return kill;
}

std::string in_bytes(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double step = 1024;
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= step && unit + 1 < units.size(); ++unit) value /= step;
  char digits[32];
  std::snprintf(digits, sizeof digits, "%.1f", value);
  std::string text = digits;
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text + " " + units.at(unit);
}

}  // namespace dlaunch::agent
