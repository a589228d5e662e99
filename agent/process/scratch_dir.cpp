#include "agent/process/scratch_dir.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

namespace dlaunch::agent {

Result<LockedDir> make_scratch_dir(const std::string& temporary) {
  for_each_dead_job(temporary, remove_scratch_dir);
  auto made = make_locked_dir(temporary);
  if (!made)
    return std::move(made).error().with_hint("free some space there, or set TMPDIR to another directory");
  return made;
}

void remove_scratch_dir(const LockedDir& dir) {
  if (!dir.exists() || rmdir(dir.path.c_str()) == 0) return;  // most are empty
  std::error_code ignored;
  std::filesystem::remove_all(dir.path, ignored);
}

}  // namespace dlaunch::agent
