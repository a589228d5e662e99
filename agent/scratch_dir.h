// A directory for what workers leave for their agent: their error files.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::agent {

// Makes one in `temporary`, readable by this user only. Whoever ends last removes it (agent/job_traces.h).
Result<std::string> make_scratch_dir(const std::string& temporary);
// With the files in it. No directory is no error.
void remove_scratch_dir(const std::string& path);

}  // namespace dlaunch::agent
