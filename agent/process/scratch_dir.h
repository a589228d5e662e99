// A directory for the files that workers write for their agent: their error files.
#pragma once

#include <string>

#include "store/base/locked_dir.h"
#include "store/base/result.h"

namespace dlaunch::agent {

// Makes one in `temporary`, readable by this user only, and removes those that dead jobs of this user have
// left there. The last process of the job to end removes it (agent/process/job_resources.h).
Result<LockedDir> make_scratch_dir(const std::string& temporary);
// Removes it with the files in it. Does nothing if there is none.
void remove_scratch_dir(const LockedDir& dir);

}  // namespace dlaunch::agent
