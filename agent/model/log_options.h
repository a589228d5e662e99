// What --log-dir, --redirects, --tee and the filters ask for, as a value: the launcher reads it from the
// flags, the output's side carries it out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::agent {

// torchrun's numbers: the bits of a worker's two streams.
enum class Streams : std::uint8_t { none = 0, out = 1, err = 2, both = 3 };

// Which streams, by local rank: "3" is all ranks alike, "0:1,12:3" some of them.
struct StreamMap {
  Streams all = Streams::none;
  std::map<int, Streams>
      some;  // where not empty, ranks that are not named have none, and `all` is not looked at

  [[nodiscard]] Streams of(int local_rank) const {
    if (some.empty()) return all;
    const auto found = some.find(local_rank);
    return found == some.end() ? Streams::none : found->second;
  }
  [[nodiscard]] bool any() const {
    if (some.empty()) return all != Streams::none;
    for (const auto& [rank, streams] : some) {
      if (streams != Streams::none) return true;
    }
    return false;
  }
  bool operator==(const StreamMap&) const = default;
};

// As --log-dir: no files at all.
inline constexpr const char* no_log_files = "/dev/null";

struct LogOptions {
  std::string dir;                       // empty: none was named
  StreamMap redirects;                   // to a file, and not to the console
  StreamMap tee;                         // to a file and to the console
  std::vector<int> local_ranks_filter;   // sorted; only these appear on the console; empty: all
  std::vector<int> global_ranks_filter;  // likewise, by the rank over all nodes; both must fit
  // Lines of stdout (stderr) that contain one of these are copied to one more file.
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  std::optional<std::string> line_prefix;  // of console lines; none: by rule (see Output)
  std::uint64_t max_bytes = 0;             // of one file; 0: no limit
  int keep = 3;                            // files that are kept beside the current one

  bool operator==(const LogOptions&) const = default;
};

// Whether the options ask for files at all.
inline bool wants_log_files(const LogOptions& options) {
  if (options.dir == no_log_files) return false;
  return options.redirects.any() || options.tee.any() || !options.duplicate_stdout_filters.empty() ||
         !options.duplicate_stderr_filters.empty();
}

}  // namespace dlaunch::agent
