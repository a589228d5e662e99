#include "agent/output/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace dlaunch::agent {
namespace {

// A progress bar ends its lines with a carriage return.
constexpr std::string_view line_ends = "\n\r";

}  // namespace

LogFile::LogFile(std::string path, std::uint64_t max_bytes, int keep, Warn warn, bool is_private)
    : path_(std::move(path)),
      max_bytes_(max_bytes),
      keep_(keep),
      warn_(std::move(warn)),
      is_private_(is_private) {
  open();
}

LogFile::~LogFile() {
  if (fd_ >= 0) close(fd_);
}

void LogFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const bool full = max_bytes_ != 0 && size_ != 0 && size_ + bytes.size() > max_bytes_;
    if (full && (between_lines_ || size_ >= 2 * max_bytes_)) rotate();
    const std::string_view now = bytes.substr(0, fitting(bytes));
    append(now);
    between_lines_ = line_ends.find(now.back()) != std::string_view::npos;
    bytes.remove_prefix(now.size());
  }
}

// Up to the last line end that fits, else up to the first line end, else up to twice the limit.
std::size_t LogFile::fitting(std::string_view bytes) const {
  if (max_bytes_ == 0 || size_ + bytes.size() <= max_bytes_) return bytes.size();
  const std::size_t room = max_bytes_ > size_ ? static_cast<std::size_t>(max_bytes_ - size_) : 0;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), 2 * max_bytes_ - size_));
  std::size_t end = bytes.substr(0, room).find_last_of(line_ends);
  if (end == std::string_view::npos) end = bytes.substr(0, most).find_first_of(line_ends);
  if (end == std::string_view::npos) return most;
  return end + (bytes.substr(end).starts_with("\r\n") ? 2 : 1);
}

void LogFile::open() {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, is_private_ ? 0600 : 0644);
  size_ = 0;
  if (fd_ < 0) failed("open", errno);
}

void LogFile::rotate() {
  if (fd_ >= 0) close(fd_);
  for (int i = keep_; i > 0; --i) {
    const std::string older = path_ + "." + std::to_string(i);
    const std::string newer = i == 1 ? path_ : path_ + "." + std::to_string(i - 1);
    std::rename(newer.c_str(), older.c_str());  // fails if there is none yet
  }
  open();
}

void LogFile::append(std::string_view bytes) {
  if (fd_ < 0) open();
  while (fd_ >= 0 && !bytes.empty()) {
    const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      failed("write", errno);
      break;
    }
    size_ += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  lost_.add(bytes);
  if (!bytes.empty() || !failing_) return;
  failing_ = false;
  warn_("can write to " + path_ + " again");
}

void LogFile::failed(const std::string& doing, int why) {
  why_lost_ = why;
  if (failing_) return;
  failing_ = true;
  warn_("cannot " + doing + " " + path_ + ": " + std::strerror(why) +
        "; the job continues, but this log has a gap");
}

}  // namespace dlaunch::agent
