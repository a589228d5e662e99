// What is printed when the job has ended: for a person who has no time.
#pragma once

#include <string>
#include <vector>

#include "agent/job.h"

namespace dlaunch::launcher {

// Paragraphs; none where there is nothing to say. The last is one line: what failed, where and why, and how
// often was restarted.
std::vector<std::string> end_report(const agent::JobSpec& job, const agent::Outcome& outcome);

}  // namespace dlaunch::launcher
