#include "runtime/shared_memory/message_rings.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/shared_memory/copy.h"
#include "runtime/shared_memory/direct_read.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/memory_limit.h"
#include "runtime/shared_memory/processors.h"

namespace dlaunch::internal {

namespace {

// Memory that a ring gets at once.
constexpr std::size_t memory_step = std::size_t{32} * 1024;

constexpr std::size_t most_short = sizeof(shared::RingRecord::short_content);

std::uint64_t whole_record(std::size_t content) {
  const std::size_t behind = content <= most_short ? 0 : shared::round_up(content, shared::ring_unit);
  return sizeof(shared::RingRecord) + behind;
}

// From the beginning of the record.
std::size_t content_at(std::size_t content) {
  return content <= most_short ? offsetof(shared::RingRecord, short_content) : sizeof(shared::RingRecord);
}

}  // namespace

MessageRings::MessageRings(std::shared_ptr<Segment> segment, std::vector<int> members, std::size_t place)
    : segment_(std::move(segment)),
      members_(std::move(members)),
      self_(static_cast<std::size_t>(members_[place])),
      own_(&segment_->control(place)),
      ring_size_(shared::ring_size(segment_->ranks())),
      processors_(segment_->processors(), members_.size(), usable_processors()),
      outward_(static_cast<std::size_t>(members_.back()) + 1),
      inward_(outward_.size()) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const auto rank = static_cast<std::size_t>(members_[i]);
    outward_[rank].ends = &segment_->ring_ends(place, i);
    outward_[rank].ring = segment_->ring(place, i);
    outward_[rank].control = &segment_->control(i);
    inward_[rank].ends = &segment_->ring_ends(i, place);
    inward_[rank].ring = segment_->ring(i, place);
  }
}

// --- Sending
// -------------------------------------------------------------------------------------------------

// For the ring up to `end`, its ends, and the receiver's bell: a write without memory would end the process.
void MessageRings::take_memory(std::size_t to, std::size_t end) {
  Outward& ring = outward_[to];
  const std::size_t upto = std::min(shared::round_up(end, memory_step), ring_size_);
  bool works = populate(ring.ring + ring.memory, upto - ring.memory);
  if (ring.memory == 0) {
    works = works && populate_around(ring.ends, sizeof(shared::RingEnds)) &&
            populate_around(ring.control, offsetof(shared::Control, cells));
  }
  if (!works) {
    const std::optional<std::string> why = why_memory_does_not_fit(upto - ring.memory);
    throw DistBackendError("there is no memory to send messages to the ranks of this host" +
                           (why ? ": " + *why : ""));
  }
  ring.memory = upto;
}

bool MessageRings::make_room(std::size_t to, std::size_t needed) {
  Outward& ring = outward_[to];
  if (ring.written + needed - ring.read <= ring_size_) return true;
  const std::uint64_t read = ring.ends->read.value.load(std::memory_order_acquire);
  // The receiver cannot have read more than was written, nor less than before.
  if (read > ring.written || read < ring.read) throw_damaged(to);
  ring.read = read;
  return ring.written + needed - ring.read <= ring_size_;
}

bool MessageRings::put(std::size_t to, shared::RingRecord record, std::span<const std::byte> content) {
  Outward& ring = outward_[to];
  const std::uint64_t needed = whole_record(content.size());
  const std::uint64_t left = left_in_ring(ring.written);
  const std::uint64_t skipped = left < needed ? left : 0;
  if (!make_room(to, skipped + needed)) {
    ring.full_at.store(ring.read, std::memory_order_relaxed);
    return false;
  }
  forget_room(to);
  const std::size_t begin = (ring.written + skipped) & (ring_size_ - 1);
  const std::size_t end = skipped > 0 ? ring_size_ : begin + needed;
  if (end > ring.memory) take_memory(to, end);
  std::byte* const memory = ring.ring;
  if (skipped > 0) {
    const shared::RingRecord skip{.kind = shared::skip_record};
    std::memcpy(memory + (ring.written & (ring_size_ - 1)), &skip, sizeof skip);
    ring.written += skipped;
  }
  record.size = static_cast<std::uint32_t>(content.size());
  std::byte* const place = memory + begin;
  if (content.size() <= most_short) {
    if (!content.empty()) std::memcpy(record.short_content, content.data(), content.size());
    std::memcpy(place, &record, sizeof record);
  } else {
    std::memcpy(place, &record, sizeof record);
    copy(place + sizeof record, content);
  }
  ring.written += needed;
  ring.ends->written.value.store(ring.written, std::memory_order_release);
  return true;
}

void MessageRings::notify(std::size_t to) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  shared::Bell& bell = outward_[to].control->message_bell;
  if (bell.awaited.load(std::memory_order_relaxed) != 0) futex_wake(bell.rings);
}

// --- Receiving
// -----------------------------------------------------------------------------------------------

std::optional<MessageRings::Arrived> MessageRings::front(std::size_t from) {
  Inward& ring = inward_[from];
  for (;;) {
    if (ring.written == ring.read) {
      const std::uint64_t written = ring.ends->written.value.load(std::memory_order_acquire);
      if (written == ring.read) return std::nullopt;
      if (written - ring.read > ring_size_ || written % shared::ring_unit != 0) throw_damaged(from);
      ring.written = written;
    }
    // A copy: the sender cannot change it after the check.
    shared::RingRecord record;
    std::memcpy(&record, ring.ring + (ring.read & (ring_size_ - 1)), sizeof record);
    if (record.kind != shared::skip_record) {
      const auto content = checked_content(from, record, ring.written - ring.read);
      ring.next = ring.read + whole_record(content.size());
      return Arrived{record, content};
    }
    const std::uint64_t left = left_in_ring(ring.read);
    if (left >= ring.written - ring.read) throw_damaged(from);  // a record follows
    ring.read += left;
  }
}

std::span<const std::byte> MessageRings::checked_content(std::size_t from, const shared::RingRecord& record,
                                                         std::uint64_t available) const {
  const std::uint64_t read = inward_[from].read;
  if (record.size > most_content() || whole_record(record.size) > std::min(available, left_in_ring(read)))
    throw_damaged(from);
  return {inward_[from].ring + (read & (ring_size_ - 1)) + content_at(record.size), record.size};
}

void MessageRings::pop(std::size_t from) {
  Inward& ring = inward_[from];
  ring.read = ring.next;
  ring.ends->read.value.store(ring.read, std::memory_order_release);
}

void MessageRings::throw_damaged(std::size_t from) {
  throw DistNetworkError(damaged_memory, {.peer = static_cast<int>(from)});
}

// --- Waiting
// -------------------------------------------------------------------------------------------------

bool MessageRings::has_records() const {
  for (const int member : members_) {
    const auto from = static_cast<std::size_t>(member);
    if (from != self_ && has_records_of(from)) return true;
  }
  return false;
}

bool MessageRings::has_room() const {
  for (const int member : members_) {
    const Outward& ring = outward_[static_cast<std::size_t>(member)];
    const std::uint64_t full_at = ring.full_at.load(std::memory_order_relaxed);
    if (full_at != has_room_now && ring.ends->read.value.load(std::memory_order_acquire) != full_at)
      return true;
  }
  return false;
}

std::uint32_t MessageRings::rings_seen() const {
  return own().message_bell.rings.load(std::memory_order_seq_cst);
}

void MessageRings::wait(std::uint32_t seen, Deadline until) {
  futex_wait(own().message_bell.rings, seen, std::min(until, std::chrono::steady_clock::now() + sleep_limit));
  if (on_idle_ && own().message_bell.rings.load(std::memory_order_relaxed) == seen) on_idle_();
  own().message_bell.processor.store(current_processor(), std::memory_order_relaxed);
}

bool MessageRings::can_yield() {
  if (!take_own_memory()) return false;
  std::atomic<std::uint32_t>& published = own().message_bell.scheduling_group;
  if (published.load(std::memory_order_relaxed) == 0)
    published.store(scheduling_group(), std::memory_order_relaxed);
  const std::uint32_t ours = published.load(std::memory_order_relaxed);
  return std::ranges::any_of(members_, [&](int member) {
    const Outward& ring = outward_[static_cast<std::size_t>(member)];
    return ring.memory > 0 &&
           ring.control->message_bell.scheduling_group.load(std::memory_order_relaxed) == ours;
  });
}

void MessageRings::part_from_others() {
  if (!take_own_memory()) return;
  const std::uint32_t processor = current_processor();
  for (const int member : members_) {
    const auto rank = static_cast<std::size_t>(member);
    if (rank != self_ &&
        outward_[rank].control->message_bell.processor.load(std::memory_order_relaxed) == processor) {
      leave_processor(processor);
      break;
    }
  }
  own().message_bell.processor.store(current_processor(), std::memory_order_relaxed);
}

void MessageRings::interrupt() noexcept {
  interrupts_.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(own().message_bell.rings);
}

bool MessageRings::may_lend() {
  if (!may_read_directly_ || !direct_reads_are_faster()) return false;
  return take_own_memory();
}

// Before this rank writes into its own control. False: there is no memory for that.
bool MessageRings::take_own_memory() {
  if (!has_own_memory_) has_own_memory_ = populate_around(own_, offsetof(shared::Control, cells));
  return has_own_memory_;
}

// No other rank can wake this one.
void MessageRings::rest() {
  std::atomic<std::uint32_t> word = 0;
  futex_wait(word, 0, std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
}

void MessageRings::withdraw() noexcept {
  if (has_own_memory_) own().origin.withdrawn.exchange(1, std::memory_order_seq_cst);
}

MessageRings::Asleep::Asleep(MessageRings& rings) : sleepers(rings.own().message_bell.awaited) {
  sleepers.fetch_add(1, std::memory_order_seq_cst);
}

MessageRings::Asleep::~Asleep() { sleepers.fetch_sub(1, std::memory_order_relaxed); }

}  // namespace dlaunch::internal
