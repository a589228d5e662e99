#include "runtime/shared_memory/group_memory.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/errors.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/memory_limit.h"
#include "runtime/shared_memory/process_end.h"
#include "runtime/shared_memory/processors.h"
#include "store/base/random.h"

namespace dlaunch::internal {

namespace {

// Looks at a value before the first check: most values come by then.
constexpr int first_looks = 100;
// Cells that get memory at once.
constexpr std::size_t first_cells = 16;
std::atomic<std::size_t> staging_of_all_groups = 0;  // bytes of this process that have memory

[[noreturn]] void throw_no_memory(std::size_t size) {
  const std::optional<std::string> why = why_memory_does_not_fit(size);
  throw DistBackendError("there is no memory to share data with the ranks of this host" +
                         (why ? ": " + *why : ""));
}

}  // namespace

GroupMemory::GroupMemory(std::shared_ptr<Segment> segment, std::vector<int> members, std::size_t self,
                         Check check)
    : segment_(std::move(segment)),
      members_(std::move(members)),
      self_(self),
      check_(std::move(check)),
      own_(&segment_->control(self)),
      staging_of_all_groups_(staging_of_all_groups),
      processors_(segment_->processors(), members_.size(), usable_processors()),
      token_(random_u64() | 1U) {}

GroupMemory::~GroupMemory() { forget_staging(); }

// --- A call
// --------------------------------------------------------------------------------------------------

void GroupMemory::begin(const shared::Fingerprint& fingerprint, Deadline deadline) {
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  if (interrupts != entered_with_) check_(no_rank);
  entered_with_ = interrupts;
  deadline_ = deadline;
  ++number_;
  received_ = 0;
  if (number_ < shared::window && number_ % first_cells == 1) take_cell_memory();
  if (number_ == 1) introduce();
  if (number_ > settled_ + shared::lead) settle(number_ - shared::lead);
  fingerprints_[number_ % shared::window] = fingerprint;
  own().cells[number_ % shared::window].fingerprint = fingerprint;
}

// What the others need to know of this rank.
void GroupMemory::introduce() {
  const ProcessMemory self = ProcessMemory::own(token_);
  if (!processors_.suffice())
    own().bell.scheduling_group.store(scheduling_group(), std::memory_order_relaxed);
  own().origin.process = self.process;
  own().origin.token_address = self.token_address;
  own().origin.pid_namespace = own_pid_namespace();
  own().origin.token.store(self.token, std::memory_order_release);
}

// Of the next cells. A group of few calls takes only the first ones.
void GroupMemory::take_cell_memory() {
  const std::size_t cells = std::min(number_ % shared::window + first_cells, shared::window);
  const std::size_t size = offsetof(shared::Control, cells) + cells * sizeof(shared::Cell);
  if (!populate_around(own_, size)) throw_no_memory(size);
}

// Waits until all ranks have entered that call.
void GroupMemory::settle(std::uint64_t number) {
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer != self_) await_cell(peer, number);
  }
  settled_ = number;
}

const shared::Cell& GroupMemory::await_cell(std::size_t peer, std::uint64_t number) {
  const shared::Cell& cell = segment_->control(peer).cells[number % shared::window];
  await({peer, cell.stamp, number});
  // The peer has not entered call number + window, which uses the same cell.
  if (cell.stamp.load(std::memory_order_relaxed) != number) throw_damaged(peer);
  const shared::Fingerprint& ours = fingerprints_[number % shared::window];
  if (cell.fingerprint != ours) on_mismatch_(member(peer), cell.fingerprint, ours);
  return cell;
}

std::byte* GroupMemory::compose(std::size_t size) {
  const std::size_t cell = number_ % shared::window;
  if (size <= shared::inline_size) return own().cells[cell].bytes;
  if (size <= shared::short_size) {
    with_memory(segment_->short_area(self_, 0), (cell + 1) * shared::short_size, short_with_memory_);
    return segment_->short_area(self_, cell);
  }
  if (number_ > settled_ + shared::eager_lead) settle(number_ - shared::eager_lead);
  const std::size_t area = number_ % shared::eager_window;
  return with_memory(segment_->eager(self_, area), size, eager_with_memory_[area]);
}

// The area, whose first `size` bytes may be written. `having`: the bytes that have memory already.
std::byte* GroupMemory::with_memory(std::byte* area, std::size_t size, std::size_t& having) {
  if (size <= having) return area;
  const std::size_t whole = shared::round_up(size, shared::page_size);
  if (!populate(area + having, whole - having)) throw_no_memory(whole - having);
  having = whole;
  return area;
}

void GroupMemory::publish() {
  own().cells[number_ % shared::window].stamp.store(number_, std::memory_order_release);
  wake_waiting();
}

const std::byte* GroupMemory::receive(std::size_t peer, std::size_t size) {
  const shared::Cell& cell = await_cell(peer, number_);
  // The earlier calls in which neither of the two waited for the other.
  for (std::uint64_t number = settled_ + 1; number < number_; ++number) await_cell(peer, number);
  if (++received_ + 1 == members_.size()) settled_ = number_;
  if (size <= shared::inline_size) return cell.bytes;
  if (size <= shared::short_size) return segment_->short_area(peer, number_ % shared::window);
  return segment_->eager(peer, number_ % shared::eager_window);
}

void GroupMemory::meet() {
  for (std::size_t step = 1; step < size(); ++step) receive((self_ + step) % size(), 0);
}

// --- Long data
// -----------------------------------------------------------------------------------------------

bool GroupMemory::reads_directly() {
  if (!reads_directly_) reads_directly_ = try_direct_reads();
  return *reads_directly_;
}

bool GroupMemory::try_direct_reads() {
  bool works = may_read_directly_ && direct_reads_are_faster();
  for (std::size_t peer = 0; peer < size() && works; ++peer) {
    if (peer == self_) continue;
    const ProcessMemory there = memory_of(peer);
    std::uint64_t word = 0;
    works =
        internal::read_directly(there, there.token_address, reinterpret_cast<std::byte*>(&word), sizeof word);
  }
  own().origin.verdict.store(works ? shared::verdict_yes : shared::verdict_no, std::memory_order_release);
  wake_waiting();
  for (std::size_t peer = 0; peer < size(); ++peer) {
    if (peer == self_) continue;
    const std::atomic<std::uint64_t>& verdict = segment_->control(peer).origin.verdict;
    await({peer, verdict, shared::verdict_no});
    works &= verdict.load(std::memory_order_relaxed) == shared::verdict_yes;
  }
  return works;
}

// REQUIRES: the peer has entered a call.
ProcessMemory GroupMemory::memory_of(std::size_t peer) const {
  const shared::Origin& origin = segment_->control(peer).origin;
  return {.process = origin.process,
          .token_address = origin.token_address,
          .token = origin.token.load(std::memory_order_acquire)};
}

bool GroupMemory::seems_ended(std::size_t peer) const {
  const shared::Origin& origin = segment_->control(peer).origin;
  return origin.token.load(std::memory_order_acquire) != 0 &&
         internal::seems_ended(origin.process, origin.pid_namespace);
}

void GroupMemory::read_directly(std::size_t peer, std::uint64_t address, std::byte* to, std::size_t size) {
  const bool is_read = internal::read_directly(memory_of(peer), address, to, size);
  if (!is_read) throw_unreadable(peer);
  throw_if_withdrawn(peer);
}

// If it had given up while this rank read, it would have withdrawn its memory before it changed it.
void GroupMemory::throw_if_withdrawn(std::size_t peer) {
  if (segment_->control(peer).origin.withdrawn.fetch_add(0, std::memory_order_seq_cst) != 0)
    throw_unreadable(peer);
}

// The peer has ended or has given up. Its reason comes over the connection, perhaps some milliseconds later.
void GroupMemory::throw_unreadable(std::size_t peer) {
  constexpr auto patience = std::chrono::milliseconds(100);
  constexpr auto pause = std::chrono::milliseconds(5);
  const Deadline until = deadline_after(patience);
  do {
    if (on_idle_) on_idle_();
    check_(member(peer));
    futex_wait(own().bell.rings, own().bell.rings.load(std::memory_order_seq_cst), deadline_after(pause));
  } while (!has_passed(until));
  throw DistNetworkError("its memory can no longer be read", {.peer = member(peer)});
}

std::byte* GroupMemory::own_staging(std::uint64_t round, std::size_t size) {
  std::size_t& having = staging_with_memory_[round % 2];
  const std::size_t before = having;
  std::byte* const area = with_memory(staging(self_, round), size, having);
  if (having != before) staging_of_all_groups_ += having - before;
  return area;
}

void GroupMemory::end_staging() {
  if (staging_of_all_groups_ <= most_staging || staging_with_memory_[0] + staging_with_memory_[1] == 0)
    return;
  for (std::size_t step = 1; step < size(); ++step) await_all_drained((self_ + step) % size());
  for (std::size_t half = 0; half < 2; ++half) discard(staging(self_, half), staging_with_memory_[half]);
  forget_staging();
}

void GroupMemory::forget_staging() {
  for (std::size_t& having : staging_with_memory_) staging_of_all_groups_ -= std::exchange(having, 0);
}

std::size_t GroupMemory::staging_in_use() { return staging_of_all_groups; }

void GroupMemory::await_counter(std::size_t peer, const shared::Counter& counter, std::uint64_t rounds) {
  await({peer, counter.value, shared::counter_value(number_, rounds)});
  if (counter.value.load(std::memory_order_relaxed) >= shared::counter_value(number_ + shared::window, 0)) {
    throw_damaged(peer);
  }
}

void GroupMemory::throw_damaged(std::size_t peer) const {
  throw DistNetworkError(damaged_memory, {.peer = member(peer)});
}

// --- Waiting
// -------------------------------------------------------------------------------------------------

// Only peers that sleep for this rank.
void GroupMemory::wake_waiting() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  for (std::size_t peer = 0; peer < size(); ++peer) {
    shared::Bell& bell = segment_->control(peer).bell;
    if (peer != self_ && bell.awaited.load(std::memory_order_relaxed) == self_ + 1) futex_wake(bell.rings);
  }
}

std::shared_ptr<std::byte> GroupMemory::allocate(std::size_t size, std::string& why) const {
  const std::shared_ptr<SharedHeap> heap = segment_->heap(why);
  if (!heap) return nullptr;
  std::shared_ptr<std::byte> memory = heap->allocate(self_, size);
  if (!memory) why = "the heap of this rank has no room for it";
  return memory;
}

void GroupMemory::interrupt() noexcept {
  interrupts_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(own().bell.rings);
}

void GroupMemory::await(const Awaited& awaited) {
  if (awaited.is_here()) return;
  if (processors_.suffice()) {
    for (int i = 0; i < first_looks; ++i) {
      processor_pause();
      if (awaited.is_here()) return;
    }
  }
  await_long(awaited);
}

void GroupMemory::await_long(const Awaited& awaited) {
  checked_ = interrupts_.load(std::memory_order_acquire) - 1;  // an earlier interrupt may concern this peer
  if (look(awaited)) return;
  if (processors_.suffice()) {
    const Deadline until = std::min(deadline_, std::chrono::steady_clock::now() + spin_limit);
    do {
      for (int i = 0; i < looks_per_clock; ++i) {
        processor_pause();
        if (look(awaited)) return;
      }
    } while (!has_passed(until));
  } else if (can_yield_to(awaited.peer)) {
    for (int i = 0; i < yields_before_sleep; ++i) {
      sched_yield();
      if (look(awaited)) return;
    }
  }
  while (!look(awaited)) {
    if (has_passed(deadline_)) throw late_error(member(awaited.peer), false);
    sleep(awaited);
  }
}

bool GroupMemory::can_yield_to(std::size_t peer) const {
  const std::uint32_t ours = own().bell.scheduling_group.load(std::memory_order_relaxed);
  return ours != 0 && segment_->control(peer).bell.scheduling_group.load(std::memory_order_relaxed) == ours;
}

// Whether it is here. Throws if it will not come.
bool GroupMemory::look(const Awaited& awaited) {
  if (awaited.is_here()) return true;
  const std::uint32_t interrupts = interrupts_.load(std::memory_order_acquire);
  if (interrupts == checked_) return false;
  checked_ = interrupts;
  // A rank may leave after it has written what this one waits for.
  if (awaited.is_here()) return true;
  try {
    check_(member(awaited.peer));
  } catch (...) {
    if (awaited.is_here()) return true;  // it came between the two looks
    throw;
  }
  return awaited.is_here();
}

void GroupMemory::sleep(const Awaited& awaited) {
  shared::Bell& bell = own().bell;
  if (processors_.suffice()) part_from(awaited.peer);
  struct Announced {
    std::atomic<std::uint32_t>& awaited;
    ~Announced() { awaited.store(0, std::memory_order_relaxed); }
  };
  bell.awaited.store(static_cast<std::uint32_t>(awaited.peer + 1), std::memory_order_seq_cst);
  const Announced announced{bell.awaited};
  const std::uint32_t rings = bell.rings.load(std::memory_order_seq_cst);
  Deadline now = std::chrono::steady_clock::now();
  for (const Deadline until = now + looks_before_sleep; now < until; now = std::chrono::steady_clock::now()) {
    if (look(awaited)) return;
    processor_pause();
  }
  futex_wait(bell.rings, rings, std::min(deadline_, now + sleep_limit));
  if (on_idle_ && bell.rings.load(std::memory_order_relaxed) == rings) on_idle_();
  bell.processor.store(current_processor(), std::memory_order_relaxed);
}

// That rank may have to wait until this one sleeps.
void GroupMemory::part_from(std::size_t peer) {
  const std::uint32_t processor = current_processor();
  if (segment_->control(peer).bell.processor.load(std::memory_order_relaxed) == processor)
    leave_processor(processor);
  own().bell.processor.store(current_processor(), std::memory_order_relaxed);
}

}  // namespace dlaunch::internal
