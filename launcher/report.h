// What is printed when the job has ended: for a person who has no time.
#pragma once

#include <string>

#include "agent/job.h"

namespace dlaunch::launcher {

// Empty where there is nothing to say. Several lines; the last one says what failed, where and why, how often was
// restarted, and what to do where that is known.
std::string end_report(const agent::JobSpec& job, const agent::Outcome& outcome);

}  // namespace dlaunch::launcher
