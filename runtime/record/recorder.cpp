#include "runtime/record/recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "runtime/base/log.h"
#include "runtime/base/quick_clock.h"
#include "runtime/record/page_words.h"
#include "runtime/record/unix_clock.h"

namespace dlaunch::internal {

namespace {

// The page has the numbers of our enums.
static_assert(static_cast<int>(DType::int8) == 0 && static_cast<int>(DType::boolean) == 5 &&
              static_cast<int>(DType::complex128) == 11 && static_cast<int>(last_dtype) == 13);

// The record's field limits the milliseconds.
std::uint32_t recorded(std::chrono::milliseconds length) {
  constexpr std::int64_t most = UINT32_MAX;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(most, length.count()));
}

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

template <std::size_t N>
void put_text(std::array<char, N>& into, std::string_view text) {
  for (std::size_t i = 0; i < N; ++i) put(into[i], i < text.size() ? text[i] : '\0');
}

thread_local std::uint32_t call_site = 0;
// Whether a thread may have set its own: other programs are spared the look at thread-local memory.
constinit std::atomic<bool> has_call_sites = false;

std::uint32_t current_call_site() { return has_call_sites.load(std::memory_order_relaxed) ? call_site : 0; }

// As many ranks as the runs can hold.
void put_ranks(std::array<page::Run, page::max_runs>& runs, std::span<const int> ranks) {
  std::size_t at = 0;
  for (page::Run& place : runs) {
    page::Run run{};
    if (at < ranks.size()) run = {ranks[at], 1, 1};
    if (at + 1 < ranks.size()) run.stride = ranks[at + 1] - ranks[at];
    if (at < ranks.size()) ++at;
    for (; at < ranks.size() && ranks[at] - ranks[at - 1] == run.stride; ++at) ++run.count;
    put(place.first, run.first);
    put(place.stride, run.stride);
    put(place.count, run.count);
  }
}

// Claims the page for this process: it had no owner, or a dead one.
bool claim(std::int32_t& owner) {
  std::int32_t before = get(owner);
  if (before == getpid()) return true;
  if (before != 0 && (kill(before, 0) == 0 || errno != ESRCH)) return false;
  return std::atomic_ref<std::int32_t>(owner).compare_exchange_strong(before, getpid());
}

// A file that is longer than the limit would end this process by SIGXFSZ.
bool may_be_so_long(std::size_t size) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

// If the file does not exist, the worker creates it, and not the agent: most workers record nothing. An
// existing file that is not a page belongs to another program.
bool can_be_page(int fd, bool is_new) {
  struct stat about {};
  if (is_new) return may_be_so_long(sizeof(page::Page));
  return fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_size == sizeof(page::Page);
}

// nullptr: the file is not a page, or there is no space for it.
page::Page* map(const std::string& path) {
  constexpr int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  int fd = ::open(path.c_str(), flags | O_CREAT | O_EXCL, 0600);
  const bool is_new = fd >= 0;
  if (!is_new) fd = ::open(path.c_str(), flags);
  if (fd < 0) return nullptr;
  void* memory = MAP_FAILED;
  // Allocates its memory now: a write to a page without memory would end the process by SIGBUS.
  if (can_be_page(fd, is_new) && posix_fallocate(fd, 0, sizeof(page::Page)) == 0) {
    memory = mmap(nullptr, sizeof(page::Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  } else if (is_new) {
    unlink(path.c_str());
  }
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<page::Page*>(memory);
}

}  // namespace

std::uint64_t GroupRecorder::write_begin(const What& what, std::uint64_t sequence, int peer,
                                         const Timeout& limit) const {
  const bool collective = page::is_collective(what.operation);
  if (!collective) add(page_->header.others_begun, 1);
  const std::uint64_t number = add(page_->header.next, 1);
  if (number == 0) put(page_->header.first_ns, ns_of(limit.began));
  page::Record& record = page_->records[number % page::max_records];
  if (claim(record.seqlock, 2 * number + 1)) {
    put(record.sequence, sequence);
    put(record.created_ns, ns_of(limit.began));
    put(record.ended_ns, std::int64_t{0});
    put(record.input, what.input);
    put(record.output, what.output);
    put(record.group, group_->id);
    put(record.peer, std::int32_t{peer});
    put(record.timeout_ms, recorded(limit.length));
    put(record.operation, what.operation);
    put(record.dtype, what.dtype ? static_cast<std::uint8_t>(*what.dtype) : page::no_dtype);
    put(record.state, std::uint8_t{page::Record::started});
    put(record.on_device, std::uint8_t{page::Record::not_known});
    put(page_->call_site_of[number % page::max_records], current_call_site());
    put(record.seqlock, 2 * number + 2);
  }
  if (collective) put(group_->entered, sequence);  // numbers are given out in order
  return number;
}

void GroupRecorder::write_on_device(const RecordMark& mark, page::Record::OnDevice where) const {
  page::Record& record = page_->records[mark.number % page::max_records];
  if (get(record.seqlock) == 2 * mark.number + 2) put(record.on_device, std::uint8_t{where});
}

void GroupRecorder::write_end(const RecordMark& mark, bool success) const {
  page::Record& record = page_->records[mark.number % page::max_records];
  if (get(record.seqlock) == 2 * mark.number + 2) {  // not overwritten by a later one
    put(record.ended_ns, ns_of(QuickClock::now()));
    put(record.state, std::uint8_t{success ? page::Record::completed : page::Record::failed});
  }
  std::uint64_t& last = success ? group_->done : group_->failed;
  if (mark.awaited) {
    put(last, mark.sequence);  // concurrent ends have smaller numbers, and only raise it
  } else if (mark.collective) {
    raise_to(last, mark.sequence);
  }
  add(mark.collective ? page_->header.collectives_ended : page_->header.others_ended, 1);
}

void GroupRecorder::leave() const {
  if (group_ != nullptr) put(group_->state, std::uint32_t{page::Group::left});
}

void GroupRecorder::record_loss(int rank, page::Loss loss, page::Operation operation,
                                std::uint64_t sequence) const {
  if (page_ == nullptr || get(page_->header.lost) != 0) return;
  page::Header& header = page_->header;
  put(header.loss_sequence, sequence);
  put(header.loss_group, group_->id);
  put(header.loss_operation, operation);
  put(header.loss, loss);
  put(header.lost, std::int32_t{rank} + 1);
}

WaitRecord::WaitRecord() : page_(recorder().page()) {
  if (page_ != nullptr) add(page_->header.waiting, 1);
}
WaitRecord::~WaitRecord() {
  if (page_ != nullptr) add(page_->header.waiting, ~std::uint64_t{0});  // one less
}

FormingRecord::FormingRecord() : page_(recorder().page()) {
  if (page_ != nullptr) put(page_->header.forming_ns, std::max(std::int64_t{1}, steady_ns()));
}
FormingRecord::~FormingRecord() {
  if (page_ != nullptr) put(page_->header.forming_ns, std::int64_t{0});
}

KeyWaitRecord::KeyWaitRecord(std::string_view key) : page_(recorder().page()) {
  if (page_ == nullptr) return;
  std::int64_t none = 0;
  std::atomic_ref<std::int64_t> since(page_->header.key_since_ns);
  if (!since.compare_exchange_strong(none, -1)) {
    page_ = nullptr;
    return;
  }
  put_text(page_->header.key, key);
  since.store(std::max(std::int64_t{1}, steady_ns()), std::memory_order_release);
}
KeyWaitRecord::~KeyWaitRecord() {
  if (page_ != nullptr) put(page_->header.key_since_ns, std::int64_t{0});
}

AnswerWaitRecord::AnswerWaitRecord() : page_(recorder().page()) {
  if (page_ != nullptr) add(page_->header.calls.waiting, 1);
}
AnswerWaitRecord::~AnswerWaitRecord() {
  if (page_ != nullptr) add(page_->header.calls.waiting, ~std::uint64_t{0});  // one less
}

void record_poll() {
  if (page::Page* const page = recorder().page()) add(page->header.asks, 1);
}

std::uint32_t& thread_call_site() {
  has_call_sites.store(true, std::memory_order_relaxed);
  return call_site;
}

void record_link(int rank, int socket) {
  struct stat about {};
  if (fstat(socket, &about) == 0) recorder().add_link(rank, about.st_ino);
}

void Recorder::leave_in_exception() {
  if (page::Page* const own = page()) put(own->header.left_in_exception, std::uint8_t{1});
}

page::Page* Recorder::page() {
  const std::lock_guard lock(mutex_);
  return page_ != nullptr && get(page_->header.owner) == getpid() ? page_ : nullptr;
}

void Recorder::open(const std::string& path, int rank, int world_size) {
  const std::lock_guard lock(mutex_);
  if (page_ != nullptr && get(page_->header.owner) != getpid()) page_ = nullptr;
  if (page_ == nullptr) {
    page::Page* const mapped = map(path);
    if (mapped == nullptr) {
      log(LogLevel::info, "operations are not recorded: cannot map " + path);
      return;
    }
    page::Header& header = mapped->header;
    if (!claim(header.owner)) {
      log(LogLevel::info, "operations are not recorded: another process does so in " + path);
      munmap(mapped, sizeof(page::Page));
      return;
    }
    // A dead owner's data are not this process's.
    put(header.magic, std::uint64_t{0});
    for (page::Group& group : mapped->groups) std::memset(&group, 0, sizeof group);
    for (page::Record& record : mapped->records) put(record.seqlock, std::uint64_t{0});
    for (page::Link& link : mapped->links) put(link.inode, std::uint64_t{0});
    for (page::Call& call : mapped->calls) put(call.seqlock, std::uint64_t{0});
    std::memset(&header.calls, 0, sizeof header.calls);
    for (page::CallSite& site : mapped->call_sites) put(site.id, std::uint32_t{0});
    for (std::uint64_t* count : {&header.next, &header.collectives_ended, &header.others_begun,
                                 &header.others_ended, &header.waiting, &header.asks})
      put(*count, std::uint64_t{0});
    put(header.lost, std::int32_t{0});
    put(header.first_ns, std::int64_t{0});
    put(header.forming_ns, std::int64_t{0});
    put(header.key_since_ns, std::int64_t{0});
    put(header.left_in_exception, std::uint8_t{0});
    put(header.crash.state, std::uint32_t{page::Crash::none});
    put(header.version, page::version);
    page_ = mapped;
  }
  page::Header& header = page_->header;
  put(header.rank, std::int32_t{rank});
  put(header.world_size, std::int32_t{world_size});
  put(header.unix_minus_steady_ns, unix_ns() - steady_ns());
  put(header.joined_ns, steady_ns());
  put(header.magic, page::magic);
}

void Recorder::add_link(int rank, std::uint64_t inode) {
  const std::lock_guard lock(mutex_);
  if (page_ == nullptr || get(page_->header.owner) != getpid()) return;
  const auto is_same = [inode](page::Link& link) { return get(link.inode) == inode; };
  if (std::any_of(page_->links.begin(), page_->links.end(), is_same)) return;
  page::Link& link = page_->links[links_++ % page::max_links];
  put(link.inode, std::uint64_t{0});
  put(link.rank, std::int32_t{rank});
  put(link.inode, inode);
}

std::uint32_t Recorder::add_call_site(std::string_view file, std::uint32_t line, std::string_view function) {
  const std::lock_guard lock(mutex_);
  if (page_ == nullptr || get(page_->header.owner) != getpid()) return 0;
  page::CallSite& site = page_->call_sites[call_sites_ % page::max_call_sites];
  put(site.id, std::uint32_t{0});
  put(site.line, line);
  put_text(site.file, file.substr(file.size() - std::min(file.size(), site.file.size())));
  put_text(site.function, function);
  put(site.id, ++call_sites_);
  return call_sites_;
}

GroupRecorder Recorder::add(const Description& description) {
  const std::lock_guard lock(mutex_);
  page::Group* const group = page_ != nullptr ? place() : nullptr;
  if (group == nullptr) return {};
  const std::uint64_t seqlock = get(group->seqlock);
  put(group->seqlock, seqlock + 1);
  put(group->identity, hash_of(description.identity));
  put(group->id, ++last_id_);
  put(group->size, static_cast<std::uint32_t>(description.ranks.size()));
  put(group->rank, std::int32_t{description.rank});
  put_text(group->name, description.name);
  put_text(group->backend, description.backend);
  put_ranks(group->runs, description.ranks);
  put(group->entered, std::uint64_t{0});
  put(group->failed, std::uint64_t{0});
  put(group->done, std::uint64_t{0});
  put(group->state, std::uint32_t{page::Group::current});
  put(group->seqlock, seqlock + 2);
  return {page_, group};
}

// An unused one, else the one that was left first; nullptr: all are in use.
page::Group* Recorder::place() {
  page::Group* found = nullptr;
  for (page::Group& group : page_->groups) {
    if (group.state == page::Group::free) return &group;
    if (group.state == page::Group::left && (found == nullptr || group.id < found->id)) found = &group;
  }
  return found;
}

Recorder& recorder() {
  static Recorder& only = *new Recorder;  // operations may end while the process does
  return only;
}

}  // namespace dlaunch::internal
