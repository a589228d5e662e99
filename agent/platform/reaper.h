// Finds and kills every descendant of this process, so that none survives.
//
// Process groups are not enough: a worker's child may have made its own session, or its parent may have died.
// The caller is a child subreaper (prctl): every orphan becomes the caller's child, so "no child left" means
// "no descendant left". It signals only processes that the kernel lists as descendants at that moment.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/base/time.h"

namespace dlaunch::agent {

// Orphaned descendants become children of this process from now on.
void become_subreaper();

// Every process that /proc shows; none if /proc shows another process namespace than this process's.
std::vector<pid_t> all_processes();
std::vector<pid_t> children_of(pid_t pid);     // direct ones, zombies included
std::vector<pid_t> descendants_of(pid_t pid);  // all, parents before their children

// One pass: sends SIGKILL to every descendant of this process that is neither a zombie nor in `spared`.
// Returns how many. The next pass finds processes that are forked during this one.
int kill_descendants(const std::vector<pid_t>& spared = {});

// When the process was started, in the kernel's ticks: pid and birth together identify a process for good. 0:
// its birth is not known; none: it does not exist, or has ended.
std::optional<std::uint64_t> birth_of(pid_t pid);

// "4711 (python3)"; "4711" if the name cannot be read.
std::string name_process(pid_t pid);

// With its state and the kernel function in which it waits: "4711 (python3; uninterruptible, in
// nfs_wait_bit_killable)"; empty: it has ended and only waits to be reaped.
std::string explain_process(pid_t pid);

// Reaps every child of this process that has ended. Does not wait.
void reap_all_ended();

// CLOCK_MONOTONIC, for processes without a loop.
Duration monotonic_now();
// CLOCK_BOOTTIME: also advances while the machine sleeps, like the clocks of the other machines of the job.
std::int64_t boot_time_ms();

// For a process that is about to end: kills and reaps all descendants, pass after pass, until none is left or
// `limit` has passed. Returns the survivors (in an uninterruptible system call). Blocks. REQUIRES: SIGCHLD is
// not ignored.
std::vector<pid_t> kill_and_reap_all(Duration limit);

}  // namespace dlaunch::agent
