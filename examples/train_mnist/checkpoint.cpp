#include "examples/train_mnist/checkpoint.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "examples/train_mnist/data_error.h"

namespace mnist {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied into the file as they lie in memory");

constexpr std::string_view magic = "MNISTCKP";
constexpr std::uint32_t current_version = 2;
constexpr std::size_t header_bytes = 8 + 4 + 4 + 8 + 8 + 4 + 4 + 8 + 8;
constexpr std::size_t crc_bytes = 4;
constexpr std::uint64_t max_parameters = 16'000'000;  // far above this network's; bounds memory at 128 MB

constexpr std::size_t file_bytes(std::size_t parameters) {
  return header_bytes + 2 * parameters * sizeof(float) + crc_bytes;
}

[[noreturn]] void fail_reading(const std::string& path, const std::string& why) {
  throw DataError("cannot use checkpoint", path, why);
}
[[noreturn]] void fail_writing(const std::string& path, const std::string& why) {
  throw DataError("cannot write checkpoint", path, why);
}
std::string errno_text() { return std::generic_category().message(errno); }

std::uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

class Writer {
 public:
  explicit Writer(std::size_t size) { bytes_.reserve(size); }

  void put(std::span<const std::byte> raw) { bytes_.insert(bytes_.end(), raw.begin(), raw.end()); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void put(T value) { put(std::as_bytes(std::span(&value, 1))); }

  [[nodiscard]] std::span<const std::byte> written() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Requires that the bytes asked for are there: decode checks the file's size once, before.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  void get(std::span<std::byte> raw) {
    if (raw.empty()) return;
    std::memcpy(raw.data(), bytes_.data(), raw.size());
    bytes_ = bytes_.subspan(raw.size());
  }
  template <class T>
  T get() {
    T value{};
    get(std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Header {
  RunSettings settings;
  std::uint32_t epochs_done = 0;
  std::uint64_t fencing_token = 0;
  std::size_t parameters = 0;
};

// Reads the header from the first bytes of a file (all there are, header_bytes at most) and holds it against
// the file's size. After this the file has exactly the bytes it should have.
Header decode_header(std::span<const std::byte> bytes, std::uint64_t file_size, const std::string& path) {
  const std::size_t shown = std::min(bytes.size(), magic.size());
  if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(shown),
                  std::as_bytes(std::span(magic)).begin()))
    fail_reading(path, "not a checkpoint of train_mnist");
  if (bytes.size() < header_bytes)
    fail_reading(path, "truncated: " + std::to_string(file_size) + " bytes, its header alone has " +
                           std::to_string(header_bytes));

  Reader reader(bytes.subspan(magic.size()));
  const auto version = reader.get<std::uint32_t>();
  if (version != current_version)
    fail_reading(path, "written in version " + std::to_string(version) +
                           " of the format, this program reads version " + std::to_string(current_version));
  Header header;
  header.epochs_done = reader.get<std::uint32_t>();
  header.settings.seed = reader.get<std::uint64_t>();
  header.settings.batch_size = reader.get<std::uint64_t>();
  header.settings.learning_rate = reader.get<float>();
  header.settings.training_images = reader.get<std::uint32_t>();
  header.fencing_token = reader.get<std::uint64_t>();
  const auto parameters = reader.get<std::uint64_t>();
  if (parameters > max_parameters)
    fail_reading(path, "corrupt: its header claims " + std::to_string(parameters) + " parameters");
  header.parameters = static_cast<std::size_t>(parameters);

  const std::size_t expected = file_bytes(header.parameters);
  if (file_size < expected)
    fail_reading(path,
                 "truncated: " + std::to_string(file_size) + " of " + std::to_string(expected) + " bytes");
  if (file_size > expected)
    fail_reading(path, "corrupt: " + std::to_string(file_size - expected) + " bytes too many");
  return header;
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  void reset(int fd) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

// Fills `bytes` as far as the file goes; returns how many bytes came.
std::size_t read_some(int fd, std::span<std::byte> bytes, const std::string& path) {
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + got, bytes.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_reading(path, errno_text());
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

// Of all processes, also on other nodes that share the file system, one has the lock of a path.
class PathLock {
 public:
  explicit PathLock(const std::string& path) : name_(path + ".lock"), file_(-1) {
    const auto deadline = std::chrono::steady_clock::now() + longest_wait;
    while (!take(path)) {
      if (std::chrono::steady_clock::now() >= deadline)
        fail_writing(path, "another process has held the lock " + name_ + " for 30 s");
      ::poll(nullptr, 0, 10);  // nothing tells of the end of a lock within a time
    }
  }
  PathLock(const PathLock&) = delete;
  PathLock& operator=(const PathLock&) = delete;
  ~PathLock() { ::unlink(name_.c_str()); }  // before the lock ends

 private:
  static constexpr std::chrono::seconds longest_wait{30};

  bool take(const std::string& path) {
    file_.reset(::open(name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (file_.get() < 0) fail_writing(path, name_ + ": " + errno_text());
    if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK || errno == EINTR) return false;
      fail_writing(path, name_ + ": " + errno_text());
    }
    // The process that had the lock before may have removed the file that we opened.
    struct stat ours {};
    struct stat there {};
    return ::fstat(file_.get(), &ours) == 0 && ::lstat(name_.c_str(), &there) == 0 &&
           ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  }

  std::string name_;
  FileDescriptor file_;
};

// The header of the file, which is compared with the file's size; nothing if there is no file.
std::optional<Header> read_header(const std::string& path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for its other end.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  struct stat info {};
  if (file.get() < 0 || ::fstat(file.get(), &info) != 0) fail_reading(path, errno_text());
  if (!S_ISREG(info.st_mode)) fail_reading(path, "not a regular file");
  std::vector<std::byte> bytes(header_bytes);
  bytes.resize(read_some(file.get(), bytes, path));
  return decode_header(bytes, static_cast<std::uint64_t>(info.st_size), path);
}

// Requires the lock of the path.
void require_token(const std::string& path, std::uint64_t fencing_token) {
  const auto there = read_header(path);
  if (!there || there->fencing_token <= fencing_token) return;
  fail_writing(path, "it has the fencing token " + std::to_string(there->fencing_token) +
                         " of a later world of the job, and this process has " +
                         std::to_string(fencing_token) +
                         (fencing_token == 0 ? " (not started by dlaunch)" : "") +
                         "; use another file, or remove this one");
}

}  // namespace

std::vector<std::byte> encode(const Checkpoint& checkpoint) {
  Writer writer(file_bytes(checkpoint.parameters.size()));
  writer.put(std::as_bytes(std::span(magic)));
  writer.put(current_version);
  writer.put(checkpoint.epochs_done);
  writer.put(checkpoint.settings.seed);
  writer.put(checkpoint.settings.batch_size);
  writer.put(checkpoint.settings.learning_rate);
  writer.put(checkpoint.settings.training_images);
  writer.put(checkpoint.fencing_token);
  writer.put(static_cast<std::uint64_t>(checkpoint.parameters.size()));
  writer.put(std::as_bytes(std::span(checkpoint.parameters)));
  writer.put(std::as_bytes(std::span(checkpoint.velocity)));
  writer.put(crc_of(writer.written()));
  return writer.take();
}

Checkpoint decode(std::span<const std::byte> bytes, const std::string& path) {
  const Header header = decode_header(bytes.first(std::min(bytes.size(), header_bytes)), bytes.size(), path);

  const std::span<const std::byte> covered = bytes.first(bytes.size() - crc_bytes);
  if (Reader(bytes.last(crc_bytes)).get<std::uint32_t>() != crc_of(covered))
    fail_reading(path, "corrupt: its checksum does not match its content");

  Checkpoint checkpoint{.settings = header.settings,
                        .epochs_done = header.epochs_done,
                        .parameters = std::vector<float>(header.parameters),
                        .velocity = std::vector<float>(header.parameters),
                        .fencing_token = header.fencing_token};
  Reader reader(covered.subspan(header_bytes));
  reader.get(std::as_writable_bytes(std::span(checkpoint.parameters)));
  reader.get(std::as_writable_bytes(std::span(checkpoint.velocity)));
  return checkpoint;
}

std::optional<Checkpoint> read_checkpoint(const std::string& path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for its other end.
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return std::nullopt;
  if (file.get() < 0) fail_reading(path, errno_text());
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_reading(path, errno_text());
  if (!S_ISREG(info.st_mode)) fail_reading(path, "not a regular file");

  const auto file_size = static_cast<std::uint64_t>(info.st_size);
  std::vector<std::byte> bytes(header_bytes);
  bytes.resize(read_some(file.get(), bytes, path));
  const Header header = decode_header(bytes, file_size, path);

  // Now the file's size is known to be that of a checkpoint, and within bounds.
  bytes.resize(file_bytes(header.parameters));
  const std::size_t rest = read_some(file.get(), std::span(bytes).subspan(header_bytes), path);
  bytes.resize(header_bytes + rest);
  return decode(bytes, path);
}

void require_fits(const Checkpoint& checkpoint, const std::string& path, const RunSettings& settings,
                  std::size_t parameters) {
  const auto require = [&path](const char* what, auto theirs, auto ours) {
    if (theirs == ours) return;
    std::ostringstream why;
    why << "it is of a run with " << what << " " << theirs << ", this one has " << ours;
    fail_reading(path, why.str());
  };
  require("seed", checkpoint.settings.seed, settings.seed);
  require("batch size", checkpoint.settings.batch_size, settings.batch_size);
  require("learning rate", checkpoint.settings.learning_rate, settings.learning_rate);
  require("a number of training images of", checkpoint.settings.training_images, settings.training_images);
  require("a number of parameters of", checkpoint.parameters.size(), parameters);
}

void require_writable(const std::string& path) {
  const std::string directory = directory_of(path);
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0) fail_writing(path, directory + ": " + errno_text());
  if (!S_ISDIR(info.st_mode)) fail_writing(path, directory + " is not a directory");
  if (::access(directory.c_str(), W_OK | X_OK) != 0) fail_writing(path, directory + ": " + errno_text());
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const std::vector<std::byte> bytes = encode(checkpoint);

  // A name nobody else has, on the same file system as the final one.
  std::string temporary = path + ".XXXXXX";
  FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) fail_writing(path, errno_text());
  // fsync before rename: else a power cut can leave the new name with the old nothing in it. close also
  // reports what a network file system learns late.
  try {
    if (!write_all(file.get(), bytes) || ::fsync(file.get()) != 0 || file.close() != 0)
      fail_writing(path, errno_text());
    const PathLock lock(path);
    require_token(path, checkpoint.fencing_token);
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_writing(path, errno_text());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }

  // The rename itself is an entry in the directory, which has to reach the disk too.
  const FileDescriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const bool synced = directory.get() >= 0 && ::fsync(directory.get()) == 0;
  if (!synced && errno != EINVAL)
    fail_writing(path, errno_text());  // EINVAL: this file system has no such need
}

void remove_checkpoint(const std::string& path, std::uint64_t fencing_token) {
  const PathLock lock(path);
  require_token(path, fencing_token);
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    throw DataError("cannot remove checkpoint", path, errno_text());
}

}  // namespace mnist
