// A directory for what workers leave for their agent: their error files.
#pragma once

#include <string>

#include "store/base/locked_dir.h"
#include "store/base/result.h"

namespace dlaunch::agent {

// Makes one in `temporary`, readable by this user only, and removes what dead jobs of this user have left
// there. Whoever of the job ends last removes it (agent/process/job_resources.h).
Result<LockedDir> make_scratch_dir(const std::string& temporary);
// With the files in it. None is no error.
void remove_scratch_dir(const LockedDir& dir);

}  // namespace dlaunch::agent
