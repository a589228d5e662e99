// The jobs of this user on this machine (root: of every user), as their agents report them.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job_status.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct JobList {
  std::vector<agent::JobStatus> jobs;  // by age, the oldest first
  std::vector<std::int64_t> silent;    // agents that did not answer in time: suspended or very busy
};

// Queries all agents at once, for five seconds at most, and for one if all that have not answered are
// stopped. Agents in another network namespace are not found.
JobList running_jobs();

// The jobs whose id, or agent's pid, is `name`; all jobs if it is empty.
JobList select_jobs(JobList list, const std::string& name);

// If `user` runs jobs of this list, only these; else the whole list.
JobList prefer_jobs_of(std::int64_t user, JobList list);

// The running jobs that `name` selects. An error if there are none.
Result<JobList> find_jobs(const std::string& name);

// The only running job that `name` selects. An error if there is none, or more than one agent of it here.
Result<agent::JobStatus> find_one_job(const std::string& name);

}  // namespace dlaunch::launcher
