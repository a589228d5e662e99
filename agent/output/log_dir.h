// Where a job's log files are: <--log-dir>/<job id>_<random>/attempt_<round>/<local rank>/stdout.log, as
// torchrun lays them out, and <--log-dir>/latest, a link to the newest job's directory. Where to find them by
// rank: agent/output/rank_links.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/model/log_options.h"
#include "store/base/result.h"

namespace dlaunch::agent {

// Makes this job's directory and returns its absolute path: it is told to people elsewhere. Where no
// --log-dir is named it is made in `temporary`, for this user alone; else for whom the umask lets in. Not
// thread-safe. A job id may hold what a file's name may not; that is
// replaced.
Result<std::string> make_log_dir(const LogOptions& options, const std::string& job_id,
                                 const std::string& temporary);

// That files could go where --log-dir says, also where none are asked for: not where a plain file is. Makes
// nothing.
Result<void> check_log_dir(const LogOptions& options);

// Whether a directory of this name was made for this job (empty: for any), and in `temporary` or a named one.
bool is_log_dir_of(std::string_view name, const std::string& job_id, bool in_temporary);

// Beside such a directory, a name that its job's id alone decides.
std::string shared_name_of(std::string_view job_dir_name);

// Of one worker; not made here.
std::string worker_log_dir(const std::string& job_dir, std::uint32_t round, std::uint32_t local_rank);

}  // namespace dlaunch::agent
