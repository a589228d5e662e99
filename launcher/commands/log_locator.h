// Where the log files of a job are that `dlaunch logs` is asked for: of one that runs, or has ended.
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
  std::filesystem::path dir;           // of the job, or of one of its nodes where each has its own
  std::vector<std::int64_t> agents{};  // pids of the dlaunches of this machine that write for this job
};

// `log_dir`: as --log-dir of the command; empty: not given. Then jobs that run go before those that have
// ended, and these are looked for where the variables of --log-dir say, else in the temporary directory.
// `job`: an id or an agent's pid; empty: any.
Result<LogLocation> locate_logs(const std::string& log_dir, const std::string& job,
                                const EnvironmentMap& environment);

// Where the files of the job that writes in `dir` are named by rank, over all nodes that write beside it
// (agent/output/rank_links.h). None: nowhere yet, or a newer job of the same id has the names.
std::optional<std::filesystem::path> find_ranks(const std::filesystem::path& dir);

// "attempt_12" -> 12 with the mark "attempt_": the numbers of a folder's entries, in order.
std::vector<int> numbered(const std::filesystem::path& folder, std::string_view mark);

inline constexpr std::string_view attempt_mark = "attempt_";

}  // namespace dlaunch::launcher
