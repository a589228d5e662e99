#include "agent/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dlaunch::agent {

LogFile::LogFile(std::string path, std::uint64_t max_bytes, int keep, Warn warn)
    : path_(std::move(path)), max_bytes_(max_bytes), keep_(keep), warn_(std::move(warn)) {
  open();
}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

void LogFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    std::string_view now = bytes;
    if (max_bytes_ != 0 && size_ + bytes.size() > max_bytes_) {
      if (between_lines_ && size_ != 0) turn_over();
      // To the last line's end that fits, else to the first there is.
      const std::uint64_t room = max_bytes_ > size_ ? max_bytes_ - size_ : 0;
      std::size_t end =
          room == 0 ? std::string_view::npos : bytes.substr(0, static_cast<std::size_t>(room)).rfind('\n');
      if (end == std::string_view::npos) end = bytes.find('\n');
      if (bytes.size() > room && end != std::string_view::npos) now = bytes.substr(0, end + 1);
    }
    append(now);
    between_lines_ = now.back() == '\n';
    bytes.remove_prefix(now.size());
  }
}

void LogFile::open() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  size_ = 0;
  if (fd_ < 0) failed("open", errno);
}

void LogFile::turn_over() {
  if (fd_ >= 0) close(fd_);
  for (int i = keep_; i > 0; --i) {
    const std::string older = path_ + "." + std::to_string(i);
    const std::string newer = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
    std::rename(newer.c_str(), older.c_str());  // what is not there yet need not move
  }
  open();
}

void LogFile::append(std::string_view bytes) {
  if (fd_ < 0) open();
  while (fd_ >= 0 && !bytes.empty()) {
    const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return failed("write", errno);
    size_ += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  if (fd_ < 0 || !failing_) return;
  failing_ = false;
  warn_("writing " + path_ + " works again");
}

void LogFile::failed(const std::string& doing, int why) {
  if (failing_) return;
  failing_ = true;
  warn_("cannot " + doing + " " + path_ + ": " + std::strerror(why) +
        "; the job goes on, this log has a gap");
}

}  // namespace dlaunch::agent
