// Jobs as people read them. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job_status.h"

namespace dlaunch::launcher {

// Aligns the cells in columns, separated by two blanks. Each line ends with a newline.
std::string columns(const std::vector<std::vector<std::string>>& rows);

// A headline, then one line for each job, followed by what the job waits for and what last stopped a round.
std::string job_table(const std::vector<agent::JobStatus>& jobs);

// A job's workers on this node.
std::string worker_table(const agent::JobStatus& job);

}  // namespace dlaunch::launcher
