// The job's cgroup (v2): it holds all workers and their descendants, so that one write kills them all at
// once, also those that fork meanwhile or have become daemons, whatever their parent is.
//
// It lies in this process's own cgroup. Root may write there; other users may if it was delegated to them (by
// systemd: a unit with Delegate=yes, or a scope of the user's own manager).
#pragma once

#include <string>

#include "store/base/locked_dir.h"
#include "store/base/result.h"

namespace dlaunch::agent {

using JobCgroup = LockedDir;

// Makes the cgroup of the job whose agent has the pid `agent`: this process or its parent. Also kills and
// removes what dead jobs have left beside it. The error explains why no cgroup can be made here.
Result<JobCgroup> make_job_cgroup(pid_t agent);

// Kills what dead jobs have left, and removes their cgroups.
void remove_stale_job_cgroups();

// Makes a cgroup inside `cgroup` for processes to be started. Returns a descriptor of its directory, or -1.
// After a kill the next processes need a new one: Linux 6.18 and others kill a process at birth if its cgroup
// was ever killed and its parent's was not (they compare the two cgroups' counts of kills).
int make_sub_cgroup(const JobCgroup& cgroup, const std::string& name);
void remove_sub_cgroup(const JobCgroup& cgroup, const std::string& name);

// Sends SIGKILL to everything in it and in cgroups below it. Does nothing if there is no cgroup.
void kill_job_cgroup(const JobCgroup& cgroup);

// Kills what is in it, waits shortly until that has ended, and removes it with the cgroups below. A cgroup
// that still holds a process (in an uninterruptible system call) stays; the next job removes it.
void remove_job_cgroup(const JobCgroup& cgroup);

}  // namespace dlaunch::agent
