// The report as a file for programs: --report.
#pragma once

#include <string>

#include "launcher/report/report.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// The manual page describes the schema; `version` counts its changes.
std::string report_json(const JobReport& report);

// Node 0's report of a job on several hosts, with the output that this dlaunch's readers did not take.
std::string with_dropped(const std::string& json, const DroppedOutput& dropped);

// Checks, before the job starts, that a file can be created at `path` or replace the one there. A link to a
// regular file is followed; anything else that exists there is an error.
Result<void> check_writable(const std::string& path);

// Writes a file beside `path` and renames it: if that fails, the old file is unchanged.
Result<void> write_whole(const std::string& path, const std::string& text);

}  // namespace dlaunch::launcher
