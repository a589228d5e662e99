// The pages of a round that did not succeed, kept in the job's log directory, for `dlaunch dump` and `dlaunch
// trace` after the job:
//
//   <job's log directory>/attempt_<round>/records/
//       node.json                   the node's status when the round ended
//       <round>_<local rank>.page   of each worker that has one
//
// Accesses only files. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "agent/model/job_status.h"
#include "store/base/result.h"

namespace dlaunch::agent {

// Copies the pages of the status' workers; those of the last 16 rounds stay. Whatever cannot be written is
// left out: a full disk must not keep a job from its restart. Without a page nothing is written.
void keep_round(JobStatus status, const std::string& pages_dir, const std::string& log_dir);

// The rounds that were kept in this directory or below it, in the order of their rounds, with pages_dir set.
// Links are not followed. An error if there are none, or too many.
Result<std::vector<JobStatus>> kept_rounds(const std::string& directory);

}  // namespace dlaunch::agent
