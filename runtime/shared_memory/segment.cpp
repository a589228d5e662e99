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

#include "runtime/shared_memory/processors.h"
#include "store/base/random.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace dlaunch::internal {

namespace {

std::string describe_errno(const char* what) {
  return std::string(what) + ": " + std::generic_category().message(errno);
}

// A file that is longer would end this process by SIGXFSZ.
std::size_t longest_file() {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 ? static_cast<std::size_t>(limit.rlim_cur) : 0;
}

bool is_possible(const shared::Header& header, std::size_t ranks, off_t file_size) {
  return header.magic == shared::magic && header.ranks == ranks &&
         header.heap_part <= shared::most_heap_part && header.heap_part % shared::page_size == 0 &&
         file_size == static_cast<off_t>(shared::file_size(ranks, header.heap_part));
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
  const std::size_t longest = longest_file();
  if (shared::heap_at(ranks) > longest) {
    why = "the limit on file sizes (ulimit -f) does not allow " + std::to_string(shared::heap_at(ranks)) +
          " bytes";
    return -1;
  }
  const int fd = memfd_create("dlaunch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    why = describe_errno("memfd_create");
    return -1;
  }
  const shared::Header header{.magic = shared::magic,
                              .ranks = ranks,
                              .identity = random_u64() | 1U,
                              .heap_part = shared::heap_part_within(ranks, longest)};
  if (ftruncate(fd, static_cast<off_t>(shared::file_size(ranks, header.heap_part))) != 0 ||
      pwrite(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      fcntl(fd, F_ADD_SEALS, memory_seals) != 0) {
    why = describe_errno("a memfd of the group's size");
    close(fd);
    return -1;
  }
  return fd;
}

std::shared_ptr<Segment> Segment::map(int fd, std::size_t ranks, std::string& why) {
  struct stat about {};
  shared::Header header{};
  if (fstat(fd, &about) != 0 || (fcntl(fd, F_GET_SEALS) & memory_seals) != memory_seals ||
      pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      !is_possible(header, ranks, about.st_size)) {
    why = "what it shares is not this version's memory of the group";
    return nullptr;
  }
  Registry& registry = Registry::get();
  const std::lock_guard lock(registry.mutex);
  std::erase_if(registry.all, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<Segment>& known = registry.all[{about.st_dev, about.st_ino}];
  if (std::shared_ptr<Segment> segment = known.lock()) return segment;
  const std::size_t size = mapped_size(header);
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) {
    why = describe_errno("mmap of the group's memory");
    return nullptr;
  }
  // A copy of the process must not write there, and a core file need not contain it.
  madvise(memory, size, MADV_DONTFORK);
  madvise(memory, size, MADV_DONTDUMP);
  std::shared_ptr<Segment> segment(new Segment(static_cast<std::byte*>(memory), header));
  segment->add_processors();
  known = segment;
  return segment;
}

std::size_t Segment::mapped_size(const shared::Header& header) {
  return shared::heap_at(header.ranks) + (header.heap_part > 0 ? shared::page_size : 0);
}

Segment::Segment(std::byte* memory, const shared::Header& header)
    : memory_(memory),
      processors_(reinterpret_cast<shared::Processors*>(memory + shared::processors_at)),
      ranks_(header.ranks),
      identity_(header.identity),
      heap_part_(header.heap_part),
      short_at_(shared::short_at(ranks_)),
      eager_at_(shared::eager_at(ranks_)),
      staging_at_(shared::staging_at(ranks_)) {}

// Those of this process.
void Segment::add_processors() {
  const ProcessorSet usable = usable_processor_set();
  for (std::size_t i = 0; i < usable.size(); ++i)
    processors_->sets[i].fetch_or(usable[i], std::memory_order_relaxed);
  processors_->processes.fetch_add(1, std::memory_order_release);
}

Segment::~Segment() {
  munmap(
      memory_,
      mapped_size({.magic = shared::magic, .ranks = ranks_, .identity = identity_, .heap_part = heap_part_}));
}

std::shared_ptr<SharedHeap> Segment::heap(std::string& why) {
  const std::lock_guard lock(heap_mutex_);
  if (heap_part_ == 0) why = "the limit on file sizes (ulimit -f) leaves no room for a heap";
  if (!heap_ && heap_part_ > 0)
    heap_ = SharedHeap::map(memory_ + shared::heap_at(ranks_), identity_, ranks_, heap_part_, why);
  return heap_;
}

bool populate(std::byte* begin, std::size_t size) {
  if (madvise(begin, size, MADV_POPULATE_WRITE) == 0) return true;
  return errno == EINVAL;
}

bool populate_around(void* address, std::size_t size) {
  const std::size_t before = reinterpret_cast<std::uintptr_t>(address) % shared::page_size;
  return populate(static_cast<std::byte*>(address) - before,
                  shared::round_up(before + size, shared::page_size));
}

void discard(std::byte* begin, std::size_t size) { madvise(begin, size, MADV_REMOVE); }

}  // namespace dlaunch::internal
