#include "store/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace dlaunch::store {
namespace {

constexpr std::int64_t ns_per_s = 1'000'000'000;

// False: an error.
bool read_up_to(int fd, std::size_t most, std::string& into) {
  while (into.size() < most) {
    char piece[4096];
    const ssize_t got = read(fd, piece, std::min(sizeof piece, most - into.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0;
    into.append(piece, static_cast<std::size_t>(got));
  }
  return true;
}

}  // namespace

std::optional<SmallFile> read_plain_file(const std::string& path, std::size_t most) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat about {};
  SmallFile file;
  const bool good = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && read_up_to(fd, most + 1, file.text);
  close(fd);
  if (!good) return std::nullopt;
  file.written_ns = about.st_mtim.tv_sec * ns_per_s + about.st_mtim.tv_nsec;
  file.truncated = file.text.size() > most;
  if (file.truncated) file.text.resize(most);
  return file;
}

}  // namespace dlaunch::store
