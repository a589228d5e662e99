// Finds the log files of a job for `dlaunch logs`: of a running job, or of one that has ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/flags/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct LogLocation {
  std::filesystem::path dir;           // the job's, or one node's if each node has its own
  std::vector<std::int64_t> agents{};  // pids of this machine's agents that write for this job
};

// `log_dir`: the value of the command's --log-dir; empty: not given. Then running jobs take precedence over
// jobs that have ended. Those are searched in the directory that the variables of --log-dir name, else in the
// temporary directory. `job`: an id or an agent's pid; empty: any.
Result<LogLocation> locate_logs(const std::string& log_dir, const std::string& job,
                                const EnvironmentMap& environment);

// The directory of the links by rank (agent/output/rank_links.h) to the files of the job that writes in
// `dir`, and of all nodes that write beside it. None: there are no links yet, or they belong to a newer job
// of the same id.
std::optional<std::filesystem::path> find_ranks(const std::filesystem::path& dir);

// The sorted numbers of a folder's entries that begin with the mark: "attempt_12" -> 12 with "attempt_".
std::vector<int> numbered(const std::filesystem::path& folder, std::string_view mark);

inline constexpr std::string_view attempt_mark = "attempt_";

}  // namespace dlaunch::launcher
