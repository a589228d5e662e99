// A file that processes of one or several machines take turns with, by flock(2): opened and locked for one
// operation. What a reader sees under its lock is whole, unless a writer died in the middle.
//
// Blocking, with deadlines. Not thread-safe. Failures carry only kind and `why`; the caller knows the rest:
// not_found (no such file), timeout (others kept the lock), io.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "store/base/bytes.h"
#include "store/base/result.h"
#include "store/base/time.h"

namespace dlaunch {

// Which file it was, by a descriptor that is kept open: as long as it lives no other file can be taken for
// this one, even under the same path.
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
    create,  // exclusive; a file that is not there is made (mode 0644)
  };

  // The file that the path leads to at the moment when the lock is got: one that is removed or replaced while
  // this waits for the lock is not it. With `create` a folder that is not there is waited for until
  // `folder_deadline`, by default not at all, since one that another machine made shows up late on some
  // network file systems.
  static Result<LockedFile> open(const std::string& path, Access access, TimePoint deadline,
                                 TimePoint folder_deadline = {});
  ~LockedFile();  // gives the lock back
  LockedFile(LockedFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  LockedFile& operator=(LockedFile&&) = delete;

  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Exactly `size` bytes. REQUIRES: they are within size().
  Result<void> read(std::uint64_t offset, char* into, std::size_t size);

  // Adds the bytes at the end: all of them or, where that fails (the disk is full), none.
  Result<void> append(ByteSpan bytes);

  [[nodiscard]] FileIdentity identity() const;  // of no file where the process has no descriptor left
  [[nodiscard]] bool is(const FileIdentity& file) const;

 private:
  explicit LockedFile(int fd) : fd_(fd) {}

  int fd_;
  std::uint64_t size_ = 0;
};

}  // namespace dlaunch
