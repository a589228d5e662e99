// A file that processes of one or several machines use in turn, by flock(2): opened and locked for one
// operation. A reader with the lock sees whole records, unless a writer died in the middle.
//
// Blocking, with deadlines. Not thread-safe. Failures have only kind and `why`; the caller knows the rest:
// not_found (no such file), timeout (others kept the lock), io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "store/base/bytes.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch::store {

// The identity of a file, by a descriptor that stays open: as long as it lives, no other file can be mistaken
// for this one, even under the same path.
class FileIdentity {
 public:
  FileIdentity() = default;  // of no file
  explicit FileIdentity(int descriptor) : descriptor_(descriptor) {}
  ~FileIdentity();
  FileIdentity(FileIdentity&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileIdentity& operator=(FileIdentity&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  explicit operator bool() const { return descriptor_ >= 0; }
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

class LockedFile {
 public:
  enum class Access {
    read,    // shared with other readers
    write,   // exclusive
    create,  // exclusive; creates a missing file (mode 0644)
  };

  // The file that the path names at the moment of the lock: a file that is removed or replaced during the
  // wait does not count. With `create`, waits for a missing folder until `folder_deadline` (by default not at
  // all), since on some network file systems a folder from another machine shows up late.
  static Result<LockedFile> open(const std::string& path, Access access, TimePoint deadline,
                                 TimePoint folder_deadline = {});
  ~LockedFile();  // releases the lock
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  LockedFile& operator=(LockedFile&&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Exactly `size` bytes. REQUIRES: they lie within size().
  Result<void> read(std::uint64_t offset, char* into, std::size_t size);

  // Appends the bytes: all of them or, on failure (the disk is full), none.
  Result<void> append(ByteSpan bytes);

  [[nodiscard]] FileIdentity identity() const;  // of no file if the process has no descriptor left
  [[nodiscard]] bool is(const FileIdentity& file) const;

 private:
  explicit LockedFile(int fd) : fd_(fd) {}

  int fd_;
  std::uint64_t size_ = 0;
};

}  // namespace dlaunch::store
