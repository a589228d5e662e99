// The paths of a job's log files: <--log-dir>/<job id>_<random>/attempt_<round>/<local rank>/stdout.log, the
// layout of torchrun, and <--log-dir>/latest, a link to the newest job's directory. agent/output/rank_links.h
// has the links by rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/model/log_options.h"
#include "store/base/result.h"

namespace dlaunch::agent {

// Makes this job's directory and returns its absolute path, which is shown to users in other directories.
// Without --log-dir it is made in `temporary`, readable by this user only; otherwise the umask decides.
// Characters of the job id that a file name may not contain are replaced. Not thread-safe.
Result<std::string> make_log_dir(const LogOptions& options, const std::string& job_id,
                                 const std::string& temporary);

// An error if --log-dir names something else than a directory, even if no files are requested. Makes nothing.
Result<void> check_log_dir(const LogOptions& options);

// A directory of this name was made for this job (empty: for any job), in `temporary` or in a --log-dir.
bool is_log_dir_of(std::string_view name, const std::string& job_id, bool in_temporary);

// The name of a directory beside such a one that depends only on the job's id.
std::string shared_name_of(std::string_view job_dir_name);

// The directory of one worker; does not make it.
std::string worker_log_dir(const std::string& job_dir, std::uint32_t round, std::uint32_t local_rank);

}  // namespace dlaunch::agent
