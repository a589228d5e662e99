// A number that every process of a job carries. It finds the processes whose ancestors in the job have all
// ended, and those that left the job's cgroup.
//
// It is the soft limit on file locks (RLIMIT_LOCKS), on which Linux has not acted since 2.4.25. A process
// inherits it by fork and exec; a session, an environment, descriptors and namespaces of its own do not
// change it. Only a process that sets this limit loses the mark. `ulimit -x` shows it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace dlaunch::agent {

using JobMark = std::uint64_t;  // 0: none
inline constexpr JobMark no_job_mark = 0;

// A new mark. no_job_mark if it could not be set, and for a job inside a job: its processes carry the outer
// job's mark, so that the outer job ends them, too.
JobMark make_job_mark();

// From now on this process and the processes it starts carry the mark.
void carry(JobMark mark);

// One pass: sends SIGKILL to each living process with this mark and to its process group (so that none
// escapes by forking), except this process and `spared`. Returns those that lived. It finds no processes of
// other users, and none at all if /proc cannot be read or shows another process namespace.
std::vector<pid_t> kill_marked_processes(JobMark mark, pid_t spared = 0);

}  // namespace dlaunch::agent
