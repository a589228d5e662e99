// The job's control group (cgroup v2): all its workers and whatever comes from them, so that one write ends
// them all at once, also what forks meanwhile or has made itself a daemon, and whoever their parent is.
//
// It lies in this process's own group, which root may write to, and others where it was delegated to them (by
// systemd: a unit with Delegate=yes, or a scope of the user's own manager).
#pragma once

#include <string>

#include "store/base/locked_dir.h"
#include "store/base/result.h"

namespace dlaunch::agent {

using JobCgroup = LockedDir;

// For the job of this process or, in a child of it, of `agent`. Also ends what dead jobs have left beside it.
// An error says why there can be none here.
Result<JobCgroup> make_job_cgroup(pid_t agent);

// Ends what dead jobs have left, and removes their groups.
void remove_stale_job_cgroups();

// A group inside it, for processes that are to be started; a descriptor of its directory, -1 where there is
// none. After a kill the next processes need a new one: Linux 6.18, and others, kill a process at birth that
// is cloned into a group that was ever killed from one that was not (they compare the two groups' counts of
// kills).
int make_sub_cgroup(const JobCgroup& cgroup, const std::string& name);
void remove_sub_cgroup(const JobCgroup& cgroup, const std::string& name);

// SIGKILL to everything in it and in groups below it. No group is no error.
void kill_job_cgroup(const JobCgroup& cgroup);

// Kills what is in it, waits shortly until that is gone, and removes it with the groups below. A group that
// still holds a process (in an uninterruptible system call) stays for the next job to remove.
void remove_job_cgroup(const JobCgroup& cgroup);

}  // namespace dlaunch::agent
