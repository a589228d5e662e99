// Where the log files of a job are that `dlaunch logs` is asked for: of one that runs, or has ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/settings.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct LogPlace {
  std::filesystem::path dir;  // the job's own directory
  std::int64_t agent = 0;     // pid of the dlaunch that writes there; 0: none of this machine
};

// `log_dir`: as --log-dir of the verb; empty: not given. Then jobs that run go before those that have ended,
// and these are looked for where the variables of --log-dir say, else in the temporary directory. `job`: an
// id or an agent's pid; empty: any.
Result<LogPlace> find_log_place(const std::string& log_dir, const std::string& job,
                                const EnvironmentMap& environment);

// "attempt_12" -> 12 with the mark "attempt_": the numbers of a folder's entries, in order.
std::vector<int> numbered(const std::filesystem::path& folder, std::string_view mark);

inline constexpr std::string_view attempt_mark = "attempt_";

}  // namespace dlaunch::launcher
