#include "runtime/shared_memory/byte_rings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "runtime/shared_memory/copy.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/memory_limit.h"
#include "runtime/shared_memory/processors.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {

namespace {

constexpr std::uint64_t magic = 0x31676e6972796264;  // "dbyring1"
constexpr std::size_t line = 64;

// Of a long copy the other side sees so many bytes at a time: it copies them while this side goes on.
constexpr std::size_t step_size = std::size_t{32} * 1024;
static_assert(ByteRings::ring_size % step_size == 0);

}  // namespace

struct ByteRings::Memory {
  // What one side writes. Each word that changes often has a line of its own.
  struct Words {
    alignas(line) std::atomic<std::uint64_t> written;  // bytes, ever, in the ring to the other side
    alignas(line) std::atomic<std::uint64_t> read;     // bytes, ever, of the ring to this side
    alignas(
        line) std::atomic<std::uint32_t> waits;  // how; the other side sets it to `looks` when it wakes it
    std::atomic<std::uint32_t> bell;
    std::atomic<std::uint32_t> processor;
  };
  std::uint64_t magic;
  Words words[2];
  alignas(4096) std::byte rings[2][ring_size];  // that side writes it
};

int ByteRings::make_file(std::string& why) {
  static_assert(sizeof(Memory) == file_size);
  if (const auto limit = why_memory_does_not_fit(file_size)) {
    why = *limit;
    return -1;
  }
  // A file that is longer would end this process by SIGXFSZ.
  rlimit longest{};
  if (getrlimit(RLIMIT_FSIZE, &longest) != 0 || longest.rlim_cur < file_size) {
    why = "the limit on file sizes (ulimit -f) does not allow " + std::to_string(file_size) + " bytes";
    return -1;
  }
  const int fd = memfd_create("dlaunch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const bool works = fd >= 0 && ftruncate(fd, static_cast<off_t>(file_size)) == 0 &&
                     pwrite(fd, &magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) &&
                     fallocate(fd, 0, 0, static_cast<off_t>(file_size)) == 0 &&
                     fcntl(fd, F_ADD_SEALS, memory_seals) == 0;
  if (works) return fd;
  why = "a memfd of " + std::to_string(file_size) + " bytes: " + std::generic_category().message(errno);
  if (fd >= 0) close(fd);
  return -1;
}

std::unique_ptr<ByteRings> ByteRings::map(int fd, Side side, std::string& why) {
  struct stat about {};
  std::uint64_t found = 0;
  if (fstat(fd, &about) != 0 || about.st_size != static_cast<off_t>(file_size) ||
      (fcntl(fd, F_GET_SEALS) & memory_seals) != memory_seals ||
      pread(fd, &found, sizeof found, 0) != static_cast<ssize_t>(sizeof found) || found != magic) {
    why = "what it shares is not this version's memory of a connection";
    return nullptr;
  }
  void* const memory = mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    why = "mmap of a connection's memory: " + std::generic_category().message(errno);
    return nullptr;
  }
  // The pages of holes that the other side may have left.
  if (!populate(static_cast<std::byte*>(memory), file_size)) {
    munmap(memory, file_size);
    why = "there is no memory for a connection";
    return nullptr;
  }
  // A copy of the process must not write there, and a core file need not contain it.
  madvise(memory, file_size, MADV_DONTFORK);
  madvise(memory, file_size, MADV_DONTDUMP);
  return std::unique_ptr<ByteRings>(new ByteRings(memory, side));
}

ByteRings::ByteRings(void* memory, Side side)
    : memory_(*static_cast<Memory*>(memory)), own_(side == Side::maker ? 0 : 1), other_(1 - own_) {
  memory_.words[own_].waits = elsewhere;
}

ByteRings::~ByteRings() { munmap(&memory_, file_size); }

// --- Bytes
// -------------------------------------------------------------------------------------------------------

std::optional<std::size_t> ByteRings::write(std::span<const std::span<const std::byte>> pieces) {
  awaits_room_.store(false, std::memory_order_relaxed);
  std::size_t size = 0;
  for (const auto piece : pieces) size += piece.size();
  if (written_ + size - other_read_ > ring_size) {
    const std::uint64_t read = memory_.words[other_].read.load(std::memory_order_acquire);
    if (read > written_ || read < other_read_) return std::nullopt;
    other_read_ = read;
  }
  std::size_t all = 0;
  for (const auto piece : pieces) {
    const std::size_t count = put(piece);
    all += count;
    if (count < piece.size()) break;
  }
  // In one order with how the other side waits: see wake_other().
  if (all > 0) memory_.words[own_].written.store(written_, std::memory_order_seq_cst);
  return all;
}

// As many of the bytes as there is room for. The other side does not see the last ones yet.
std::size_t ByteRings::put(std::span<const std::byte> bytes) {
  const std::size_t count = std::min<std::size_t>(bytes.size(), ring_size - (written_ - other_read_));
  for (std::size_t done = 0; done < count;) {
    const std::size_t at = written_ & (ring_size - 1);
    const std::size_t step = std::min({count - done, step_size, ring_size - at});
    copy(memory_.rings[own_] + at, bytes.subspan(done, step));
    written_ += step;
    done += step;
    if (step == step_size) memory_.words[own_].written.store(written_, std::memory_order_seq_cst);
  }
  return count;
}

bool ByteRings::await_room() {
  full_at_.store(other_read_, std::memory_order_relaxed);
  awaits_room_ = true;
  if (!has_room()) return false;
  awaits_room_ = false;
  return true;
}

std::optional<std::size_t> ByteRings::read(std::span<std::byte> to) {
  std::uint64_t position = read_.load(std::memory_order_relaxed);
  const std::uint64_t written = memory_.words[other_].written.load(std::memory_order_acquire);
  if (written - position > ring_size) return std::nullopt;
  const std::size_t count = std::min<std::size_t>(to.size(), written - position);
  const std::span<const std::byte> ring = memory_.rings[other_];
  was_full_ = false;
  for (std::size_t done = 0; done < count;) {
    const std::size_t at = position & (ring_size - 1);
    const std::size_t step = std::min({count - done, step_size, ring_size - at});
    copy(to.data() + done, ring.subspan(at, step));
    const std::uint64_t before = position;
    position += step;
    done += step;
    read_.store(position, std::memory_order_relaxed);
    memory_.words[own_].read.store(position, std::memory_order_seq_cst);
    was_full_ =
        was_full_ || memory_.words[other_].written.load(std::memory_order_seq_cst) - before == ring_size;
  }
  return count;
}

// --- Waiting
// -----------------------------------------------------------------------------------------------------
//
// One side stores a position and then loads how the other one waits; that one stores how it waits and then
// loads the position. All four are sequentially consistent: one of both sees what the other has stored.

bool ByteRings::has_bytes() const {
  return memory_.words[other_].written.load(std::memory_order_seq_cst) !=
         read_.load(std::memory_order_relaxed);
}

bool ByteRings::has_room() const {
  return memory_.words[other_].read.load(std::memory_order_seq_cst) !=
         full_at_.load(std::memory_order_relaxed);
}

void ByteRings::look() {
  memory_.words[own_].processor.store(current_processor(), std::memory_order_relaxed);
  memory_.words[own_].waits.store(looks, std::memory_order_relaxed);
}

bool ByteRings::sleep_elsewhere() {
  memory_.words[own_].waits.store(elsewhere, std::memory_order_seq_cst);
  return has_something();
}

void ByteRings::sleep_on_bell(Deadline until) {
  Memory::Words& words = memory_.words[own_];
  words.processor.store(current_processor(), std::memory_order_relaxed);
  const std::uint32_t seen = words.bell.load(std::memory_order_seq_cst);
  words.waits.store(on_bell, std::memory_order_seq_cst);
  sleeps_ = true;
  if (!is_interrupted_ && !has_something())
    futex_wait(words.bell, seen, std::min(until, std::chrono::steady_clock::now() + sleep_limit));
  sleeps_ = false;
  is_interrupted_ = false;
  look();
}

void ByteRings::interrupt() {
  is_interrupted_ = true;
  if (sleeps_) futex_wake(memory_.words[own_].bell);
}

bool ByteRings::wake_other() {
  Memory::Words& words = memory_.words[other_];
  if (words.waits.load(std::memory_order_seq_cst) == looks) return false;
  const std::uint32_t waited = words.waits.exchange(looks, std::memory_order_seq_cst);
  if (waited == on_bell) futex_wake(words.bell);
  return waited == elsewhere;
}

// The other side waits for room if the ring was full when it looked last: then it was full at the position
// that this side has just left.
bool ByteRings::wake_writer() { return was_full_ && wake_other(); }

void ByteRings::part_from_other() const {
  const std::uint32_t processor = memory_.words[other_].processor.load(std::memory_order_relaxed);
  if (processor == current_processor()) leave_processor(processor);
}

}  // namespace dlaunch::internal
