// The job's end as a file for programs: --report.
#pragma once

#include <string>

#include "launcher/report/report.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

// The schema is in the manual page; `version` counts its changes.
std::string report_json(const JobReport& report);

// The same of a job on several hosts, as node 0 has told it, with what this dlaunch's readers did not take.
std::string with_dropped(const std::string& json, const DroppedOutput& dropped);

// Whether a file can be made at `path` and put in the place of what is there: asked before the job starts.
// Its last part may be a link to a plain file; what is no plain file is refused.
Result<void> check_writable(const std::string& path);

// The whole text or, where that fails, what was there before: written beside it, then renamed.
Result<void> write_whole(const std::string& path, const std::string& text);

}  // namespace dlaunch::launcher
