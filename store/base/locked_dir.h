// A directory of a living job: every process that made it, or inherited its descriptor, holds a lock on it,
// and the kernel releases the lock when the last of them ends. A directory of such a name without a lock
// belongs to a dead job.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "store/base/result.h"

namespace dlaunch::store {

struct LockedDir {
  std::string path;  // empty: none
  int fd = -1;       // locked, closed on exec

  [[nodiscard]] bool exists() const { return fd >= 0; }
};

// Makes dlaunch-job-AGENT-RANDOM in `parent`, for this user only; `agent`: its process, by default this one.
Result<LockedDir> make_locked_dir(const std::string& parent, pid_t agent = getpid());

// Calls `remove` with each directory of this user that a dead job left in `parent`, and locks it meanwhile.
void for_each_dead_job(const std::string& parent, const std::function<void(const LockedDir&)>& remove);

// The directories in `path`, by name.
std::vector<std::string> folders_in(const std::string& path);

}  // namespace dlaunch::store
