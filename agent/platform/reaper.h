// No descendant survives: finding and killing every process that comes from this one.
//
// Process groups are not enough: a worker's child may have made its own session, or its parent may have died.
// The caller is a child subreaper (prctl), so whatever loses its parent becomes the caller's child, and "no
// child left" means "no descendant left". No memory is shared with the processes, and no pid is signalled
// that is not, at that moment, a descendant by the kernel's own account.
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

// One pass: SIGKILL to every descendant of this process that is neither a zombie nor in `spared`. Returns how
// many. What forks during the pass is found by the next.
int kill_descendants(const std::vector<pid_t>& spared = {});

// When it was started, in the kernel's ticks: pid and birth together are never another process's. 0 where
// that cannot be told; none: it does not exist, or has ended.
std::optional<std::uint64_t> birth_of(pid_t pid);

// "4711 (python3)"; "4711" where the name cannot be read.
std::string name_process(pid_t pid);

// With its state, and where in the kernel it waits: "4711 (python3; uninterruptible, in
// nfs_wait_bit_killable)"; empty: it has ended, and is only not reaped yet.
std::string explain_process(pid_t pid);

// Without waiting: whatever child of this process has ended.
void reap_all_ended();

// Of a clock that only goes forward, for processes without a loop.
Duration monotonic_now();
// CLOCK_BOOTTIME: goes on while the machine sleeps, as the other machines of the job do.
std::int64_t boot_time_ms();

// For a process that is ending: kills and reaps all descendants, pass after pass, until none is left or
// `limit` has passed. Returns the survivors (in an uninterruptible system call). Blocks; needs SIGCHLD not
// ignored.
std::vector<pid_t> kill_and_reap_all(Duration limit);

}  // namespace dlaunch::agent
