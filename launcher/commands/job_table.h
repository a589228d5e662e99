// Jobs as people read them. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job_status.h"

namespace dlaunch::launcher {

// Columns as wide as their longest cell, two blanks between them; the last may be of any length. Lines end
// with a newline.
std::string columns(const std::vector<std::vector<std::string>>& rows);

// A line each below a headline, and below each what it waits for and what failed last.
std::string job_table(const std::vector<agent::JobStatus>& jobs);

// A job's workers on this node.
std::string worker_table(const agent::JobStatus& job);

}  // namespace dlaunch::launcher
