#include "agent/process/timer_fifo.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace dlaunch::agent {
namespace {

bool is_own_fifo(const struct stat& about) { return S_ISFIFO(about.st_mode) && about.st_uid == geteuid(); }

// False: a job that has just ended removed it, and the path may now be another FIFO.
bool is_at(const std::string& path, const struct stat& opened) {
  struct stat named {};
  return lstat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

}  // namespace

Result<TimerFifo> open_timer_fifo(const std::string& path) {
  std::error_code ignored;
  const std::string place = std::filesystem::absolute(path, ignored).string();
  const auto bad = [&](ErrorKind kind, const std::string& why) {
    return Error{kind, "cannot read the workers' timers from", place, why,
                 "set TORCHELASTIC_TIMER_FILE to another path, or unset it"};
  };
  const bool made = mkfifo(place.c_str(), 0600) == 0;
  if (!made && errno != EEXIST) return bad(ErrorKind::io, std::strerror(errno));
  struct stat about {};
  if (lstat(place.c_str(), &about) != 0) return bad(ErrorKind::io, std::strerror(errno));
  if (!is_own_fifo(about)) return bad(ErrorKind::invalid, "it is not a FIFO of this user");
  // Also opened for writing: otherwise it would report its end when the last client closes it.
  const int fd = open(place.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return bad(ErrorKind::io, std::strerror(errno));
  const bool unread = flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (unread && fstat(fd, &about) == 0 && is_own_fifo(about) && is_at(place, about))
    return TimerFifo{place, fd, made};
  close(fd);
  return unread ? bad(ErrorKind::io, "it was replaced meanwhile")
                : bad(ErrorKind::in_use, "another dlaunch reads this FIFO");
}

void remove_timer_fifo(const TimerFifo& fifo) {
  struct stat opened {};
  if (fifo.is_ours && fstat(fifo.fd, &opened) == 0 && is_at(fifo.path, opened)) unlink(fifo.path.c_str());
}

}  // namespace dlaunch::agent
