// The job's control group (cgroup v2): all its workers and whatever comes from them, so that one write ends
// them all at once, also what forks meanwhile or has made itself a daemon, and whoever their parent is.
//
// It lies in this process's own group, which root may write to, and others where it was delegated to them (by
// systemd: a unit with Delegate=yes, or a scope of the user's own manager). Every process of the job that
// could remove it holds a lock on it; a group whose lock nobody holds is a dead job's, and the next job that
// starts beside it ends what is in it. The lock is the open directory, so it lives as long as the last copy
// of `fd`.
#pragma once

#include <string>

#include "store/base/result.h"

namespace dlaunch::agent {

struct JobGroup {
  std::string path;  // empty: the job has none
  int fd = -1;       // the locked directory, closed on exec

  [[nodiscard]] bool exists() const { return fd >= 0; }
};

// Also ends what dead jobs have left beside it. An error says why there can be none here.
Result<JobGroup> make_job_group();

// SIGKILL to everything in it and in groups below it. No group is no error.
void kill_job_group(const JobGroup& group);

// Kills what is in it, waits shortly until that is gone, and removes it with the groups below. A group that
// still holds a process (in an uninterruptible system call) stays for the next job to remove.
void remove_job_group(const JobGroup& group);

}  // namespace dlaunch::agent
