#include "runtime/shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "store/base/random.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace dlaunch::internal {

namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string describe_errno(const char* what) {
  return std::string(what) + ": " + std::generic_category().message(errno);
}

// A file that is longer than the limit would end this process by SIGXFSZ.
bool may_be_so_long(std::size_t size) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

// The segments of this process, by device and inode.
struct Registry {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<Segment>> all;  // protected by mutex

  static Registry& get() {
    static Registry& one = *new Registry;
    return one;
  }
};

}  // namespace

int Segment::make_file(std::size_t ranks, std::string& why) {
  if (ranks > shared::most_ranks) {
    why = "the group has more than " + std::to_string(shared::most_ranks) + " ranks";
    return -1;
  }
  const std::size_t size = shared::segment_size(ranks);
  if (!may_be_so_long(size)) {
    why = "the limit on file sizes (ulimit -f) does not allow " + std::to_string(size) + " bytes";
    return -1;
  }
  const int fd = memfd_create("dlaunch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    why = describe_errno("memfd_create");
    return -1;
  }
  const shared::Header header{.magic = shared::magic, .ranks = ranks, .identity = random_u64()};
  if (ftruncate(fd, static_cast<off_t>(size)) != 0 ||
      pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      fcntl(fd, F_ADD_SEALS, seals) != 0) {
    why = describe_errno("a memfd of the group's size");
    close(fd);
    return -1;
  }
  return fd;
}

std::shared_ptr<Segment> Segment::map(int fd, std::size_t ranks, std::string& why) {
  const std::size_t size = shared::segment_size(ranks);
  struct stat about {};
  shared::Header header{};
  if (fstat(fd, &about) != 0 || about.st_size != static_cast<off_t>(size) ||
      (fcntl(fd, F_GET_SEALS) & seals) != seals ||
      pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      header.magic != shared::magic || header.ranks != ranks) {
    why = "what it shares is not this version's memory of the group";
    return nullptr;
  }
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Segment>& known = registry.all[{about.st_dev, about.st_ino}];
  if (std::shared_ptr<Segment> segment = known.lock()) return segment;
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    why = describe_errno("mmap of the group's memory");
    return nullptr;
  }
  // A copy of the process must not write there, and a core file need not contain it.
  madvise(memory, size, MADV_DONTFORK);
  madvise(memory, size, MADV_DONTDUMP);
  std::shared_ptr<Segment> segment(new Segment(static_cast<std::byte*>(memory), ranks, header.identity));
  known = segment;
  return segment;
}

Segment::Segment(std::byte* memory, std::size_t ranks, std::uint64_t identity)
    : memory_(memory),
      ranks_(ranks),
      identity_(identity),
      eager_at_(shared::eager_at(ranks)),
      staging_at_(shared::staging_at(ranks)) {}

Segment::~Segment() { munmap(memory_, shared::segment_size(ranks_)); }

bool populate(std::byte* begin, std::size_t size) {
  if (madvise(begin, size, MADV_POPULATE_WRITE) == 0) return true;
  return errno == EINVAL;
}

void discard(std::byte* begin, std::size_t size) { madvise(begin, size, MADV_REMOVE); }

}  // namespace dlaunch::internal
