// The jobs of this user on this machine (root: of every user), as their agents tell them.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job_status.h"
#include "store/base/result.h"

namespace dlaunch::launcher {

struct JobList {
  std::vector<agent::JobStatus> jobs;  // by age, the oldest first
  std::vector<std::int64_t> silent;    // agents that did not answer in time: stopped or very busy
};

// Asks every agent, a second each at most. Agents in another network namespace are not seen.
JobList running_jobs();

// Those whose id, or agent's pid, is `name`; all where it is empty.
JobList select_jobs(JobList list, const std::string& name);

// Where `user` runs jobs of this list: only these.
JobList prefer_jobs_of(std::int64_t user, JobList list);

// Those of the running ones. An error: there are none of that name.
Result<JobList> find_jobs(const std::string& name);

}  // namespace dlaunch::launcher
