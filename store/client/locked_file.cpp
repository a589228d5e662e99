#include "store/client/locked_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "store/client/steady_time.h"

namespace dlaunch::store {
namespace {

// flock has no deadline, so it is tried again and again: often at first, since locks are held briefly.
constexpr Duration first_lock_pause = std::chrono::microseconds(20);
constexpr Duration longest_lock_pause = std::chrono::milliseconds(2);
constexpr Duration folder_pause = std::chrono::milliseconds(10);
constexpr mode_t file_mode = 0644;

Error file_error(int code) {
  return {code == ENOENT ? ErrorKind::not_found : ErrorKind::io, "", "",
          std::generic_category().message(code), ""};
}

bool same(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

int open_with_retries(const std::string& path, LockedFile::Access access, TimePoint folder_deadline) {
  const bool create = access == LockedFile::Access::create;
  // Not blocking: only a pipe could block open(), and pipes are rejected later.
  const int flags = (access == LockedFile::Access::read ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
  while (true) {
    const int fd = ::open(path.c_str(), create ? flags | O_CREAT : flags, file_mode);
    if (fd >= 0) return fd;
    if (errno == EINTR) continue;
    if (errno != ENOENT || !create || steady_now() >= folder_deadline) return fd;
    std::this_thread::sleep_for(folder_pause);
  }
}

Result<void> lock(int fd, LockedFile::Access access, TimePoint deadline) {
  const int operation = (access == LockedFile::Access::read ? LOCK_SH : LOCK_EX) | LOCK_NB;
  for (Duration pause = first_lock_pause;; pause = std::min(pause * 2, longest_lock_pause)) {
    if (flock(fd, operation) == 0) return {};
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return file_error(errno);
    if (steady_now() >= deadline)
      return Error{ErrorKind::timeout, "", "", "other processes kept the file locked", ""};
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

Result<LockedFile> LockedFile::open(const std::string& path, Access access, TimePoint deadline,
                                    TimePoint folder_deadline) {
  while (true) {
    const int fd = open_with_retries(path, access, folder_deadline);
    if (fd < 0) return file_error(errno);
    LockedFile file(fd);
    if (auto locked = lock(fd, access, deadline); !locked) return std::move(locked).error();
    struct stat here {};
    struct stat there {};
    if (fstat(fd, &here) != 0) return file_error(errno);
    if (!S_ISREG(here.st_mode)) return Error{ErrorKind::io, "", "", "not a regular file", ""};
    if (stat(path.c_str(), &there) == 0 && same(here, there)) {
      file.size_ = static_cast<std::uint64_t>(here.st_size);
      return file;
    }
    if (steady_now() >= deadline)
      return Error{ErrorKind::timeout, "", "", "it is replaced again and again", ""};
  }
}

FileIdentity::~FileIdentity() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LockedFile::~LockedFile() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // closing is not enough: a duplicate may be open
  ::close(fd_);
}

Result<void> LockedFile::read(std::uint64_t offset, char* into, std::size_t size) {
  while (size != 0) {
    const ssize_t got = pread(fd_, into, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error(errno);
    if (got == 0) return Error{ErrorKind::io, "", "", "it became shorter while it was read", ""};
    into += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return {};
}

Result<void> LockedFile::append(ByteSpan bytes) {
  std::uint64_t end = size_;
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(end));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) {
      Error why = file_error(errno);
      if (end != size_ && ftruncate(fd_, static_cast<off_t>(size_)) != 0)
        why.why += ", and a part of it could not be removed";
      return why;
    }
    end += static_cast<std::uint64_t>(put);
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  size_ = end;
  return {};
}

FileIdentity LockedFile::identity() const { return FileIdentity(fcntl(fd_, F_DUPFD_CLOEXEC, 0)); }

bool LockedFile::is(const FileIdentity& file) const {
  struct stat here {};
  struct stat there {};
  return fstat(fd_, &here) == 0 && fstat(file.descriptor(), &there) == 0 && same(here, there);
}

}  // namespace dlaunch::store
