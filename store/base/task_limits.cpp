#include "store/base/task_limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "store/base/cgroup.h"
#include "store/base/small_file.h"

namespace dlaunch::store {
namespace {

// Empty: not readable.
std::string text_of(const std::string& path) {
  constexpr std::size_t most = 16 * 1024;
  const std::optional<SmallFile> file = read_plain_file(path, most);
  return file ? file->text : "";
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// "max N" of pids.events.
std::uint64_t refusals_in(std::string_view events) {
  constexpr std::string_view name = "max ";
  return events.starts_with(name) ? number(events.substr(name.size())).value_or(0) : 0;
}

// The folder of the mounted hierarchy, and the group below it.
struct Place {
  std::string root;
  std::string group;
};

std::optional<Place> place_of_pids(const TaskLimitPlaces& places) {
  const auto group = find_cgroup(text_of(places.proc + "/self/cgroup"), "pids");
  if (!group) return std::nullopt;
  const char* const names[] = {"", "/unified", "/pids"};  // version 2, with others beside it, version 1
  for (const char* const name : names) {
    if ((group->version == 1) != (std::string_view(name) == "/pids")) continue;
    const std::string root = places.cgroup + name;
    const std::string path = group->path == "/" ? "" : group->path;
    if (access((root + path + "/cgroup.procs").c_str(), F_OK) == 0) return Place{root, group->path};
    // In a container the path may be the host's, although only the container's part is mounted.
    if (access((root + "/cgroup.procs").c_str(), F_OK) == 0) return Place{root, "/"};
  }
  return std::nullopt;
}

void add(std::string& words, const std::string& more) { words += (words.empty() ? "" : ", ") + more; }

}  // namespace

TaskLimits task_limits(const TaskLimitPlaces& places) {
  TaskLimits limits;
  if (const auto place = place_of_pids(places)) {
    std::optional<std::uint64_t> tightest;
    std::string whose;
    for (std::string group = place->group;; group = parent_cgroup(group)) {
      const std::string folder = place->root + (group == "/" ? "" : group);
      limits.refusals += refusals_in(text_of(folder + "/pids.events"));
      const auto most = number(text_of(folder + "/pids.max"));
      if (most && (!tightest || *most < *tightest)) {
        tightest = most;
        whose = group;
      }
      if (group == "/") break;
    }
    if (tightest) add(limits.describe, "pids.max is " + std::to_string(*tightest) + " in cgroup " + whose);
  }
  rlimit own{};
  const bool is_bound = geteuid() != 0 && getrlimit(RLIMIT_NPROC, &own) == 0 && own.rlim_cur != RLIM_INFINITY;
  if (is_bound) add(limits.describe, "ulimit -u is " + std::to_string(own.rlim_cur));
  return limits;
}

std::string why_no_task() {
  const std::string limits = task_limits().describe;
  return std::string(std::strerror(EAGAIN)) + ": a limit on processes and threads is reached" +
         (limits.empty() ? "" : " (" + limits + ")") +
         "; raise the limit on processes: pids.max of the cgroup (of a container or service), or ulimit -u";
}

}  // namespace dlaunch::store
