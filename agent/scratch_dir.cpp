#include "agent/scratch_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

namespace dlaunch::agent {

Result<std::string> make_scratch_dir(const std::string& temporary) {
  std::string path = temporary + "/dlaunch-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return Error{ErrorKind::io, "cannot make a directory in", temporary, std::strerror(errno),
                 "make room there, or point TMPDIR elsewhere"};
  }
  return path;
}

void remove_scratch_dir(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

Duration age_of(const std::string& path) {
  struct stat info {};
  timespec now{};
  if (stat(path.c_str(), &info) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) return {};
  const Duration age = std::chrono::seconds(now.tv_sec - info.st_mtim.tv_sec) +
                       std::chrono::nanoseconds(now.tv_nsec - info.st_mtim.tv_nsec);
  return std::max(age, Duration::zero());
}

std::string read_bounded(const std::string& path, std::size_t limit) {
  // A worker could have put a pipe or a device there.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  struct stat info {};
  std::string text;
  if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
    // Not by its size, which the kernel's own files do not tell.
    char chunk[4096];
    for (ssize_t got = read(fd, chunk, sizeof chunk); got > 0 && text.size() < limit;
         got = read(fd, chunk, sizeof chunk)) {
      text.append(chunk, std::min(static_cast<std::size_t>(got), limit - text.size()));
    }
  }
  if (fd >= 0) close(fd);
  return text;
}

}  // namespace dlaunch::agent
