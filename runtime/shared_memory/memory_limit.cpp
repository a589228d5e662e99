#include "runtime/shared_memory/memory_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "store/base/cgroup.h"

namespace dlaunch::internal {

namespace {

// Empty: not readable.
std::string text_of(const std::string& path) {
  std::string text(16 * 1024, '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// None: "max", or not readable.
std::optional<std::uint64_t> number_in(const std::string& path) {
  const std::string text = text_of(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// The number behind the name in a text of lines "name number"; 0: none.
std::uint64_t number_of(std::string_view text, std::string_view name) {
  std::uint64_t value = 0;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      std::from_chars(line.data() + name.size() + 1, line.data() + line.size(), value);
    if (text.find('\n', begin) == std::string_view::npos) break;
  }
  return value;
}

std::string mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; }

}  // namespace

// A limit of any parent counts, too.
std::optional<std::string> why_memory_does_not_fit(std::uint64_t bytes, const MemoryLimitPlaces& places) {
  const auto group = find_cgroup(text_of(places.proc + "/self/cgroup"), "memory");
  if (!group) return std::nullopt;
  const bool is_first = group->version == 1;
  const std::string root = places.cgroup + (is_first ? "/memory" : "");
  const std::string limit_name = is_first ? "memory.limit_in_bytes" : "memory.max";
  const std::string usage_name = is_first ? "memory.usage_in_bytes" : "memory.current";
  // In a container the path may be the host's, although only the container's part is mounted.
  std::string path = group->path;
  if (access((root + path + "/cgroup.procs").c_str(), F_OK) != 0) path = "/";
  for (;; path = parent_cgroup(path)) {
    const std::string folder = root + (path == "/" ? "" : path) + "/";
    const auto limit = number_in(folder + limit_name);
    auto usage = number_in(folder + usage_name);
    if (usage) {  // without the page cache, which the kernel gives up first
      const std::string stat = text_of(folder + "memory.stat");
      const std::string prefix = is_first ? "total_" : "";
      *usage -= std::min(*usage,
                         number_of(stat, prefix + "inactive_file") + number_of(stat, prefix + "active_file"));
    }
    if (limit && usage && (*usage > *limit || *limit - *usage < bytes)) {
      return (limit_name + " of cgroup ")
          .append(path)
          .append(" is " + mebibytes(*limit) + ", of which " + mebibytes(*usage) + " are in use");
    }
    if (path == "/") return std::nullopt;
  }
}

}  // namespace dlaunch::internal
