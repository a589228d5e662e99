// One rank's view of the memory that its group shares on this host: enters calls, waits, wakes (layout.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/shared_memory/direct_read.h"
#include "runtime/shared_memory/rank_processors.h"
#include "runtime/shared_memory/segment.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dlaunch::internal {

// Used by one thread at a time, except for interrupt().
class GroupMemory {
 public:
  // Called by the calling thread after interrupt().
  using Check = std::function<void(int peer)>;
  static constexpr int no_rank = -1;

  // The ranks that share the memory are numbered without gaps: `members` are their ranks in the group,
  // ascending, and `self` is this rank's index among them. `check` throws if the group has ended, or if that
  // rank has left; it is given a rank of the group, or no_rank.
  GroupMemory(std::shared_ptr<Segment> segment, std::vector<int> members, std::size_t self, Check check);
  GroupMemory(const GroupMemory&) = delete;
  GroupMemory& operator=(const GroupMemory&) = delete;
  ~GroupMemory();

  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] std::size_t self() const { return self_; }
  [[nodiscard]] int member(std::size_t index) const { return members_[index]; }

  // --- A call

  // Enters the next call: afterwards its cell may be written. The waits of this call end at the deadline.
  // Throws if the group has ended: this rank's calls would no longer be those of the others.
  void begin(const shared::Fingerprint& fingerprint, Deadline deadline);
  [[nodiscard]] std::uint64_t number() const { return number_; }
  // This rank's place for `size` bytes of short data, aligned for every dtype. REQUIRES: size <= eager_size.
  std::byte* compose(std::size_t size);
  // Makes cell and short data visible to all.
  void publish();
  // Waits until the peer has published, and compares its fingerprint. Returns its short data.
  const std::byte* receive(std::size_t peer, std::size_t size);
  // Its eager area, which has data of this call if its cell says so. After receive().
  [[nodiscard]] const std::byte* eager_area(std::size_t peer) const {
    return segment_->eager(peer, number_ % shared::eager_window);
  }
  // Waits for all.
  void meet();

  // Called when the fingerprint of a rank of the group differs from this rank's; must throw.
  using OnMismatch = void (*)(int peer, const shared::Fingerprint& theirs, const shared::Fingerprint& ours);
  void set_on_mismatch(OnMismatch on_mismatch) { on_mismatch_ = on_mismatch; }
  // Called by the waiting thread after each sleep in which nothing has come, of at most sleep_limit.
  void set_on_idle(std::function<void()> on_idle) { on_idle_ = std::move(on_idle); }
  // No rank of the group reads another's memory directly. Before the first call.
  void forbid_direct_reads() { may_read_directly_ = false; }

  // The peer's areas contain what no rank writes: DistNetworkError.
  [[noreturn]] void throw_damaged(std::size_t peer) const;

  // --- Long data, after meet()

  // Whether every rank can read the memory of all others, and that takes less time than staging: the same on
  // all ranks. The first call of it tries that; it waits for all ranks.
  bool reads_directly();
  // Copies memory of the peer, which waits in the same call meanwhile. Throws DistNetworkError if it has
  // ended or has given up.
  void read_directly(std::size_t peer, std::uint64_t address, std::byte* to, std::size_t size);
  // What was read of the peer's memory until now is what it had in this call: throws DistNetworkError if it
  // has given up.
  void throw_if_withdrawn(std::size_t peer);
  // This rank gives up a call in which others read its memory. No call may follow.
  void withdraw() { own().origin.withdrawn.exchange(1, std::memory_order_seq_cst); }

  [[nodiscard]] std::byte* staging(std::size_t rank, std::uint64_t round) const {
    return segment_->staging(rank, round % 2);
  }
  // The same of this rank, whose first `size` bytes may be written. REQUIRES: size <= half_staging_size.
  std::byte* own_staging(std::uint64_t round, std::size_t size);
  // Round `round` of this rank's staging may be read; of the others' it has been read.
  void set_filled(std::uint64_t round) { advance(own().filled, round + 1); }
  void set_drained(std::uint64_t round) { advance(own().drained, round + 1); }
  // This rank reads nothing more in this call.
  void set_all_drained() { advance(own().drained, shared::last_round); }
  // After set_all_drained(), as the last of a call with staging. If the groups of this process hold more
  // staging than most_staging, it waits for the others and returns this group's.
  void end_staging();
  static constexpr std::size_t most_staging = std::size_t{64} << 20U;  // bytes, of all groups of a process
  [[nodiscard]] static std::size_t staging_in_use();
  void await_filled(std::size_t peer, std::uint64_t round) {
    await_counter(peer, segment_->control(peer).filled, round + 1);
  }
  void await_drained(std::size_t peer, std::uint64_t round) {
    await_counter(peer, segment_->control(peer).drained, round + 1);
  }
  void await_all_drained(std::size_t peer) {
    await_counter(peer, segment_->control(peer).drained, shared::last_round);
  }

  // Memory for the program's values, which the ranks read in place (shared_heap.h). Null: there is none;
  // `why` becomes one clause. Throws as SharedHeap::allocate. Any thread. REQUIRES: size > 0.
  std::shared_ptr<std::byte> allocate(std::size_t size, std::string& why) const;

  // Whether the process of that rank seems to have ended (process_end.h). False until it has entered a call.
  // Any thread.
  [[nodiscard]] bool seems_ended(std::size_t peer) const;

  // --- From outside

  // Wakes the waiting thread; it calls `check`. Any thread, also while no thread waits.
  void interrupt() noexcept;

 private:
  [[nodiscard]] shared::Control& own() const { return *own_; }
  std::byte* with_memory(std::byte* area, std::size_t size, std::size_t& having);
  void forget_staging();
  void wake_waiting();
  void advance(shared::Counter& counter, std::uint64_t rounds) {
    counter.value.store(shared::counter_value(number_, rounds), std::memory_order_release);
    wake_waiting();
  }
  void await_counter(std::size_t peer, const shared::Counter& counter, std::uint64_t rounds);
  void introduce();
  bool try_direct_reads();
  [[nodiscard]] ProcessMemory memory_of(std::size_t peer) const;
  [[noreturn]] void throw_unreadable(std::size_t peer);
  void take_cell_memory();
  void settle(std::uint64_t number);
  const shared::Cell& await_cell(std::size_t peer, std::uint64_t number);

  // A value of the peer's that only grows, and the one that is awaited.
  struct Awaited {
    std::size_t peer;
    const std::atomic<std::uint64_t>& value;
    std::uint64_t least;
    [[nodiscard]] bool is_here() const { return value.load(std::memory_order_acquire) >= least; }
  };
  void await(const Awaited& awaited);
  void await_long(const Awaited& awaited);
  [[nodiscard]] bool can_yield_to(std::size_t peer) const;
  bool look(const Awaited& awaited);
  void sleep(const Awaited& awaited);
  void part_from(std::size_t peer);

  const std::shared_ptr<Segment> segment_;
  const std::vector<int> members_;
  const std::size_t self_;
  const Check check_;
  OnMismatch on_mismatch_ = nullptr;
  std::function<void()> on_idle_;
  shared::Control* const own_;
  // Of the library that made this object: the program's and a module's code both count there.
  std::atomic<std::size_t>& staging_of_all_groups_;
  RankProcessors processors_;

  const std::uint64_t token_;  // see ProcessMemory
  bool may_read_directly_ = true;
  std::optional<bool> reads_directly_;                // none: not tried yet
  std::uint64_t number_ = 0;                          // of the current call
  std::uint64_t settled_ = 0;                         // every rank has entered this call
  std::size_t received_ = 0;                          // ranks whose data of the current call have come
  shared::Fingerprint fingerprints_[shared::window];  // of the latest calls
  Deadline deadline_;
  std::size_t short_with_memory_ = 0;                         // bytes of all short areas of this rank
  std::size_t eager_with_memory_[shared::eager_window] = {};  // bytes of each area of this rank
  std::size_t staging_with_memory_[2] = {};
  std::uint32_t checked_ = 0;       // interrupts
  std::uint32_t entered_with_ = 0;  // interrupts
  std::atomic<std::uint32_t> interrupts_ = 0;
};

}  // namespace dlaunch::internal
