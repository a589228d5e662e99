#include "store/base/locked_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

namespace dlaunch::store {
namespace {

constexpr std::string_view prefix = "dlaunch-job-";
constexpr int tries = 8;

// None: another process holds the lock, or the directory is not ours, or was removed meanwhile.
std::optional<LockedDir> lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  struct stat opened {};
  struct stat named {};
  const bool ours = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 &&
                    opened.st_uid == geteuid() && lstat(path.c_str(), &named) == 0 &&
                    opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
  if (ours) return LockedDir{path, fd};
  close(fd);
  return std::nullopt;
}

}  // namespace

Result<LockedDir> make_locked_dir(const std::string& parent, pid_t agent) {
  // Between these two steps another dlaunch may remove the directory as a dead job's.
  for (int i = 0; i < tries; ++i) {
    std::string path = parent + "/" + std::string(prefix) + std::to_string(agent) + "-XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      return Error{ErrorKind::io, "cannot make a directory in", parent, std::strerror(errno), ""};
    if (auto locked = lock(path)) return *locked;
    rmdir(path.c_str());
  }
  return Error{ErrorKind::io, "cannot lock a directory in", parent, std::strerror(EWOULDBLOCK), ""};
}

void for_each_dead_job(const std::string& parent, const std::function<void(const LockedDir&)>& remove) {
  for (const std::string& name : folders_in(parent)) {
    if (!name.starts_with(prefix)) continue;
    if (const auto dead = lock(std::string(parent).append("/").append(name))) {
      remove(*dead);
      close(dead->fd);
    }
  }
}

std::vector<std::string> folders_in(const std::string& path) {
  std::vector<std::string> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(path.c_str()), closedir);
  if (!dir) return found;
  while (const dirent* entry = readdir(dir.get())) {  // NOLINT(concurrency-mt-unsafe): one thread
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") found.emplace_back(name);
  }
  return found;
}

}  // namespace dlaunch::store
