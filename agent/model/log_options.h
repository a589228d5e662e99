// The settings of --log-dir, --redirects, --tee and the filters: the launcher reads them from the flags,
// Output carries them out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dlaunch::agent {

// torchrun's numbers: the bits of a worker's two streams.
enum class Streams : std::uint8_t { none = 0, out = 1, err = 2, both = 3 };

// The streams of each local rank: "3" for all ranks, "0:1,12:3" for some.
struct StreamMap {
  Streams all = Streams::none;
  std::map<int, Streams> some;  // if not empty, ranks not named here have none, and `all` is ignored

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

// This --log-dir means: no files at all.
inline constexpr const char* no_log_files = "/dev/null";

struct LogOptions {
  std::string dir;                       // empty: none was named
  StreamMap redirects;                   // to a file only
  StreamMap tee;                         // to a file and to the console
  std::vector<int> local_ranks_filter;   // sorted; only these appear on the console; empty: all
  std::vector<int> global_ranks_filter;  // the same by the rank in the job; both filters must match
  // Lines of stdout (stderr) that contain one of these are copied to one more file.
  std::vector<std::string> duplicate_stdout_filters;
  std::vector<std::string> duplicate_stderr_filters;
  std::optional<std::string> line_prefix;  // of console lines; none: the default (see Output)
  std::uint64_t max_bytes = 0;             // of one file; 0: no limit
  int keep = 3;                            // files that are kept beside the current one

  bool operator==(const LogOptions&) const = default;
};

// The options request at least one file.
inline bool wants_log_files(const LogOptions& options) {
  if (options.dir == no_log_files) return false;
  return options.redirects.any() || options.tee.any() || !options.duplicate_stdout_filters.empty() ||
         !options.duplicate_stderr_filters.empty();
}

}  // namespace dlaunch::agent
