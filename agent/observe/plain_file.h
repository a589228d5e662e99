// A file that another program owns, open for reading. It is not mapped, because its owner could truncate it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace dlaunch::agent {

// Empty if the path leads to nothing, or to something else than a file.
class PlainFile {
 public:
  // `flags`: more of open(2).
  explicit PlainFile(const std::string& path, int flags = 0)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags)) {
    struct stat about {};
    if (fd_ >= 0 && (fstat(fd_, &about) != 0 || !S_ISREG(about.st_mode))) close(std::exchange(fd_, -1));
  }
  ~PlainFile() {
    if (fd_ >= 0) close(fd_);
  }
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  // `size` bytes from the offset on, fewer at the end of the file.
  [[nodiscard]] std::string read(std::uint64_t offset, std::size_t size) const {
    std::string bytes(fd_ < 0 ? 0 : size, '\0');
    std::size_t have = 0;
    while (have < bytes.size()) {
      const ssize_t got =
          pread(fd_, bytes.data() + have, bytes.size() - have, static_cast<off_t>(offset + have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      have += static_cast<std::size_t>(got);
    }
    bytes.resize(have);
    return bytes;
  }

 private:
  int fd_;
};

}  // namespace dlaunch::agent
