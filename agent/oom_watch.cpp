#include "agent/oom_watch.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "agent/scratch_dir.h"

namespace dlaunch::agent {
namespace {

constexpr std::size_t enough = 64 << 10;

}  // namespace

OomWatch::OomWatch(const std::string& cgroup_root, const std::string& own_cgroup) {
  // "0::/path" is the unified hierarchy's line.
  std::istringstream lines(own_cgroup);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::")) dir_ = cgroup_root + line.substr(3);
  }
  known_ = kills();
}

std::string OomWatch::explain() {
  const auto now = kills();
  if (!now || !known_ || *now <= *known_) return "";
  known_ = now;
  std::string text = "the kernel's out-of-memory killer";
  char* end = nullptr;
  const std::string limit = read_bounded(dir_ + "/memory.max", enough);
  const double bytes = std::strtod(limit.c_str(), &end);
  if (end == limit.c_str() || bytes <= 0) return text;  // "max": the machine's own memory was the limit
  char words[64];
  std::snprintf(words, sizeof words, " (the limit is %.1f GiB)", bytes / (1 << 30));
  return text + words;
}

std::string OomWatch::own() { return read_bounded("/proc/self/cgroup", enough); }

std::optional<std::uint64_t> OomWatch::kills() const {
  if (dir_.empty()) return std::nullopt;
  std::istringstream events(read_bounded(dir_ + "/memory.events", enough));
  std::string name;
  std::uint64_t count = 0;
  while (events >> name >> count) {
    if (name == "oom_kill") return count;
  }
  return std::nullopt;
}

}  // namespace dlaunch::agent
