// A directory that belongs to a living job: whoever made it, or inherited its descriptor, holds a lock on it,
// and the kernel lets go of the lock with the last of them. A directory of such a name without a lock is a
// dead job's.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::agent {

struct LockedDir {
  std::string path;  // empty: none
  int fd = -1;       // locked, closed on exec

  [[nodiscard]] bool exists() const { return fd >= 0; }
};

// dlaunch-job-AGENT-RANDOM in `parent`, for this user only; `agent` is its process, by default this one.
Result<LockedDir> make_locked_dir(const std::string& parent, pid_t agent = getpid());

// Calls `remove` with each of this user's that a dead job has left in `parent`. It is locked meanwhile.
void for_each_dead_job(const std::string& parent, const std::function<void(const LockedDir&)>& remove);

// The directories in `path`, by name.
std::vector<std::string> folders_in(const std::string& path);

}  // namespace dlaunch::agent
