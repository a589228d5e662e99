// One rank's view of the rings through which the ranks of a group on one host send each other messages
// (layout.h).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/rank_processors.h"
#include "runtime/shared_memory/segment.h"

namespace dlaunch::internal {

// Used by one thread at a time, except for the members that name any thread.
class MessageRings {
 public:
  // `members`: the ranks in the group that share the memory, ascending, of which this one is at `place`. All
  // ranks below are ranks in the group, and members.
  MessageRings(std::shared_ptr<Segment> segment, std::vector<int> members, std::size_t place);
  MessageRings(const MessageRings&) = delete;
  MessageRings& operator=(const MessageRings&) = delete;

  [[nodiscard]] const std::vector<int>& members() const { return members_; }
  [[nodiscard]] bool is_member(int rank) const {
    return static_cast<std::size_t>(rank) < inward_.size() && inward_[static_cast<std::size_t>(rank)].ends;
  }
  [[nodiscard]] std::size_t self() const { return self_; }
  [[nodiscard]] std::size_t ring_size() const { return ring_size_; }
  // Bytes of the longest content of a record.
  [[nodiscard]] std::size_t most_content() const { return ring_size_ / 4 - sizeof(shared::RingRecord); }

  // --- Sending

  // The record, whose `size` is that of the content, becomes visible to rank `to`, which is not woken. False:
  // the ring has no room; has_room() reports when that changes. Throws DistBackendError if there is no memory
  // for the ring. REQUIRES: content.size() <= most_content().
  bool put(std::size_t to, shared::RingRecord record, std::span<const std::byte> content);
  // After put() has returned false: the caller no longer waits for room.
  void forget_room(std::size_t to) { outward_[to].full_at.store(has_room_now, std::memory_order_relaxed); }
  // Wakes that rank's threads, or this rank's own, if they sleep: after records were put, or records of it
  // were removed.
  void notify(std::size_t to);

  // --- Receiving

  struct Arrived {
    shared::RingRecord record;
    std::span<const std::byte> content;  // in the ring: the sender could still change it
  };
  // The oldest record from that rank; none: there is none. Throws DistNetworkError if the ring contains what
  // no rank writes.
  std::optional<Arrived> front(std::size_t from);
  // Removes it. REQUIRES: front(from) has returned one.
  void pop(std::size_t from);

  // --- Waiting, any thread

  // Whether each rank can have a processor of its own.
  [[nodiscard]] bool has_core() { return processors_.suffice(); }
  // Whether some rank, or that rank, has put a record that is not removed.
  [[nodiscard]] bool has_records() const;
  [[nodiscard]] bool has_records_of(std::size_t from) const {
    const shared::RingEnds& ends = *inward_[from].ends;
    const std::uint64_t read = ends.read.value.load(std::memory_order_relaxed);
    // The next record is loaded together with the position behind it, and not after it.
    __builtin_prefetch(inward_[from].ring + (read & (ring_size_ - 1)));
    return ends.written.value.load(std::memory_order_acquire) != read;
  }
  // Whether there may be room in a ring in which put() has found none.
  [[nodiscard]] bool has_room() const;
  // Returns when this rank is notified or interrupted after `seen` was taken, or the time has come; perhaps
  // earlier. `ready` is called after the others can see that this thread sleeps; true: it does not sleep.
  [[nodiscard]] std::uint32_t rings_seen() const;
  template <class Ready>
  void sleep(std::uint32_t seen, Deadline until, const Ready& ready) {
    if (!take_own_memory()) return rest();
    const Asleep asleep(*this);
    const Deadline looks_end = std::chrono::steady_clock::now() + looks_before_sleep;
    do {
      if (ready()) return;
      processor_pause();
    } while (std::chrono::steady_clock::now() < looks_end);
    wait(seen, until);
  }
  // Whether sched_yield() can run a rank to which this one has sent, and which has called this, too
  // (processors.h). Not while another thread puts.
  [[nodiscard]] bool can_yield();
  // The calling thread leaves its processor if another rank waited there last.
  void part_from_others();
  // Called by each waiting thread after each sleep in which nothing has come, of at most sleep_limit.
  void set_on_idle(std::function<void()> on_idle) { on_idle_ = std::move(on_idle); }
  // Something outside the rings has changed: wakes this rank's threads.
  void interrupt() noexcept;
  [[nodiscard]] std::uint32_t interrupts() const { return interrupts_.load(std::memory_order_acquire); }

  // --- Memory that other ranks read (direct_read.h), any thread

  // Whether this rank may offer its memory: one copy by the kernel is faster here, and the offer can be
  // withdrawn.
  bool may_lend();
  // From now on may_lend() is false. Before the first call of it.
  void forbid_direct_reads() { may_read_directly_ = false; }
  // This rank gives up an offer: no rank takes what it reads from now on.
  void withdraw() noexcept;
  [[nodiscard]] bool has_withdrawn(std::size_t rank) const {
    return outward_[rank].control->origin.withdrawn.fetch_add(0, std::memory_order_seq_cst) != 0;
  }

 private:
  struct Asleep {
    explicit Asleep(MessageRings& rings);
    ~Asleep();
    std::atomic<std::uint32_t>& sleepers;
  };
  // What this side knows of the other end, to look there seldom.
  static constexpr std::uint64_t has_room_now = ~std::uint64_t{0};
  struct Outward {
    shared::RingEnds* ends = nullptr;  // null: the rank is no member
    std::byte* ring = nullptr;
    shared::Control* control = nullptr;  // the receiver's
    std::uint64_t written = 0;
    std::uint64_t read = 0;                             // at least
    std::atomic<std::uint64_t> full_at = has_room_now;  // what `read` was when put() found no room
    std::size_t memory = 0;  // bytes of the ring, from its beginning, that have memory
  };
  struct Inward {
    shared::RingEnds* ends = nullptr;  // null: the rank is no member
    const std::byte* ring = nullptr;
    std::uint64_t read = 0;
    std::uint64_t written = 0;  // at least
    std::uint64_t next = 0;     // `read` after pop()
  };

  void wait(std::uint32_t seen, Deadline until);
  void take_memory(std::size_t to, std::size_t end);
  bool take_own_memory();
  static void rest();
  bool make_room(std::size_t to, std::size_t needed);
  [[nodiscard]] std::span<const std::byte> checked_content(std::size_t from, const shared::RingRecord& record,
                                                           std::uint64_t available) const;
  [[noreturn]] static void throw_damaged(std::size_t from);
  [[nodiscard]] std::uint64_t left_in_ring(std::uint64_t position) const {
    return ring_size_ - (position & (ring_size_ - 1));
  }

  [[nodiscard]] shared::Control& own() const { return *own_; }

  const std::shared_ptr<Segment> segment_;
  const std::vector<int> members_;
  const std::size_t self_;
  shared::Control* const own_;
  const std::size_t ring_size_;
  RankProcessors processors_;
  std::function<void()> on_idle_;
  std::atomic<std::uint32_t> interrupts_ = 0;
  std::atomic<bool> has_own_memory_ = false;
  bool may_read_directly_ = true;
  std::vector<Outward> outward_;  // by receiver
  std::vector<Inward> inward_;    // by sender
};

}  // namespace dlaunch::internal
