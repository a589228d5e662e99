#include "runtime/shared_memory/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "store/base/cgroup.h"
#include "store/base/small_file.h"

namespace dlaunch::internal {

namespace {

// Empty: not readable.
std::string text_of(const std::string& path) {
  constexpr std::size_t most = 16 * 1024;
  const std::optional<SmallFile> file = read_plain_file(path, most);
  return file ? file->text : "";
}

// None: "max", or not readable.
std::optional<std::uint64_t> number_in(const std::string& path) {
  const std::string text = text_of(path);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// The number behind the name in a text of lines "name number"; 0: none.
std::uint64_t number_of(const std::string& text, const std::string& name) {
  const std::string lines = "\n" + text;
  const std::string before = "\n" + name + " ";
  const std::size_t at = lines.find(before);
  std::uint64_t value = 0;
  if (at != std::string::npos)
    std::from_chars(lines.data() + at + before.size(), lines.data() + lines.size(), value);
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
