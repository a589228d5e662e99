#include "runtime/point_to_point/memory_messenger.h"

#include <sched.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/ended_receives.h"
#include "runtime/base/log.h"
#include "runtime/base/quick_clock.h"
#include "runtime/point_to_point/message_errors.h"
#include "runtime/record/recorder.h"
#include "runtime/shared_memory/futex.h"
#include "runtime/shared_memory/processors.h"

namespace dlaunch::internal {

MemoryMessenger::MemoryMessenger(Transport& transport, MessageRings& rings)
    : transport_(transport),
      rings_(rings),
      received_from_(ended_receives(transport.size())),
      protocol_(transport, rings) {}

MemoryMessenger::~MemoryMessenger() {
  Settling settling(*this);
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    protocol_.end(std::make_exception_ptr(DistError(group_was_destroyed)), settling.outcome);
  }
  changed_.notify_all();
  rings_.interrupt();
  thread_.join();
  read_all();  // they end with that error, too
}

// --- Calls
// ----------------------------------------------------------------------------------------------------

// An asynchronous call handles nothing that has arrived: that could copy a large message, or run callbacks of
// other operations, while the program expects the call to return at once.
Work MemoryMessenger::send(const Tensor& tensor, int dst, Tag tag, Deadline deadline, bool async) {
  std::optional<WorkSource> source;
  std::optional<Polling> polling;
  {
    Settling settling(*this);
    const std::lock_guard lock(mutex_);
    if (!async) protocol_.progress(settling.outcome);
    if (!protocol_.send_at_once(tensor, dst, tag, settling.outcome)) {
      source.emplace();
      if (!async) polling.emplace(*this);
      protocol_.send_rts({tensor, dst, tag, deadline, *source});
    }
    ensure_thread(async, settling.outcome);
  }
  return source ? finish(*source, async) : Work();
}

Work MemoryMessenger::recv(const Tensor& tensor, int src, Tag tag, Deadline deadline, bool async) {
  if (!async && rings_.has_core() && src >= 0 && src != transport_.rank() && spin_for_next(tensor, src, tag))
    return received_from_[static_cast<std::size_t>(src)];
  const WorkSource source;
  std::optional<Polling> polling;
  if (!async) polling.emplace(*this);
  {
    Settling settling(*this);
    const std::lock_guard lock(mutex_);
    protocol_.receive({tensor, src, tag, deadline, source}, settling.outcome);
    // After it: what is in the rings goes from there to the tensor.
    if (!async) protocol_.progress(settling.outcome);
    ensure_thread(async, settling.outcome);
  }
  return finish(source, async);
}

void MemoryMessenger::post(const PostedReceive& receive) {
  Settling settling(*this);
  const std::lock_guard lock(mutex_);
  protocol_.receive(receive, settling.outcome);
  ensure_thread(true, settling.outcome);
}

Work MemoryMessenger::finish(const WorkSource& source, bool async) {
  Work work = source.work();
  if (!async) wait_for(work);
  return work;
}

// The thread runs if an asynchronous operation is under way, or something waits for room and no call polls.
// It is not woken for a call that waits: it would take the processor from it. With mutex_ held.
void MemoryMessenger::ensure_thread(bool async, MemoryProtocol::Outcome& outcome) {
  try {
    if (async ? protocol_.is_busy() : pollers_ == 0 && protocol_.has_waiting()) thread_.start();
  } catch (...) {
    protocol_.end(std::current_exception(), outcome);
  }
}

void MemoryMessenger::settle(MemoryProtocol::Outcome& outcome) {
  for (const MemoryProtocol::Ending& ending : outcome.endings) ending.end();
  if (!outcome.reads.empty()) {
    const std::lock_guard lock(mutex_);
    reads_.insert(reads_.end(), outcome.reads.begin(), outcome.reads.end());
  }
  // Other calls may wait for what has ended, and the thread for what is to be read.
  if (!outcome.endings.empty() || !outcome.reads.empty()) rings_.notify(rings_.self());
}

void MemoryMessenger::read_all() {
  for (;;) {
    std::optional<MemoryProtocol::DirectRead> read;
    {
      const std::lock_guard lock(mutex_);
      if (reads_.empty()) return;
      read.emplace(reads_.front());
      reads_.pop_front();
    }
    const bool is_read = protocol_.make(*read);
    Settling settling(*this);
    const std::lock_guard lock(mutex_);
    protocol_.end_read(*read, is_read, settling.outcome);
    ensure_thread(false, settling.outcome);
  }
}

// --- Waiting
// --------------------------------------------------------------------------------------------------

MemoryMessenger::Polling::~Polling() {
  if (--here_.pollers_ > 0) return;
  Settling settling(here_);
  const std::lock_guard lock(here_.mutex_);
  here_.ensure_thread(false, settling.outcome);
  here_.changed_.notify_all();
}

// Handles what arrives until the Work has ended. REQUIRES: the caller has a Polling.
void MemoryMessenger::wait_for(const Work& work) {
  if (work.is_completed()) return;
  read_all();
  if (rings_.has_core() ? spin_for(work) : yield_for(work)) return;
  const WaitRecord waiting;
  for (;;) {
    const std::uint32_t seen = rings_.rings_seen();
    poll();
    if (work.is_completed()) return;
    if (rings_.has_core()) rings_.part_from_others();
    rings_.sleep(seen, next_deadline(), [&] { return has_work() || work.is_completed(); });
  }
}

// The common case without what the others need: a short message that comes soon, and no other operation is
// under way. Whether it was received.
bool MemoryMessenger::spin_for_next(const Tensor& tensor, int src, Tag tag) {
  Deadline until = Deadline::min();
  for (;;) {
    for (int i = 0; i < looks_per_clock; ++i) {
      if (rings_.has_records_of(static_cast<std::size_t>(src))) return receive_next(tensor, src, tag);
      processor_pause();
    }
    const Deadline now = QuickClock::now();
    if (until == Deadline::min()) until = now + spin_limit;
    if (now >= until) return false;
  }
}

// Not for errors: the general way meets them again.
bool MemoryMessenger::receive_next(const Tensor& tensor, int src, Tag tag) {
  try {
    Settling settling(*this);
    const std::lock_guard lock(mutex_);
    const bool is_received = protocol_.receive_next(tensor, src, tag);
    ensure_thread(false, settling.outcome);
    return is_received;
  } catch (const DistError&) {
    return false;
  }
}

// Whether it has ended.
bool MemoryMessenger::spin_for(const Work& work) {
  const Deadline until = std::chrono::steady_clock::now() + spin_limit;
  do {
    for (int i = 0; i < looks_per_clock; ++i) {
      if (has_work()) poll();
      if (work.is_completed()) return true;
      processor_pause();
    }
  } while (!has_passed(until));
  return false;
}

// Whether it has ended. Other ranks of this processor run meanwhile.
bool MemoryMessenger::yield_for(const Work& work) {
  {
    const std::lock_guard lock(mutex_);
    if (!rings_.can_yield()) return false;
  }
  for (int i = 0; i < yields_before_sleep; ++i) {
    sched_yield();
    if (has_work()) poll();
    if (work.is_completed()) return true;
  }
  return false;
}

// Handles what has arrived.
void MemoryMessenger::poll() {
  {
    Settling settling(*this);
    const std::lock_guard lock(mutex_);
    protocol_.progress(settling.outcome);
    ensure_thread(false, settling.outcome);
  }
  read_all();
}

Deadline MemoryMessenger::next_deadline() {
  const std::lock_guard lock(mutex_);
  return protocol_.next_deadline();
}

// The thread.
void MemoryMessenger::serve() {
  Deadline idle_until = deadline_after(idle_limit);
  for (;;) {
    const std::uint32_t seen = rings_.rings_seen();
    poll();
    Deadline until;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, deadline_after(longest_pause), [&] { return closing_ || pollers_ == 0; });
      if (protocol_.has_ended()) changed_.wait(lock, [&] { return closing_; });
      if (closing_) return;
      if (protocol_.is_busy()) idle_until = deadline_after(idle_limit);
      if (has_passed(idle_until) && thread_.was_unused() && !protocol_.is_busy() && thread_.end_if_unused())
        return;
      until = std::min(protocol_.next_deadline(), idle_until);
    }
    rings_.sleep(seen, until, [&] { return has_work(); });
  }
}

// --- Ends
// -----------------------------------------------------------------------------------------------------

void MemoryMessenger::drain(Deadline deadline) noexcept {
  for (;;) {
    const std::uint32_t seen = rings_.rings_seen();
    poll();
    {
      const std::lock_guard lock(mutex_);
      if (protocol_.has_ended() || !(protocol_.is_transferring() || protocol_.has_waiting())) break;
    }
    if (has_passed(deadline)) break;
    rings_.sleep(seen, deadline, [&] { return has_work(); });
  }
  bool is_receiving = false;
  Settling settling(*this);
  {
    const std::lock_guard lock(mutex_);
    is_receiving = !protocol_.has_ended() && protocol_.is_receiving();
  }
  if (is_receiving) transport_.abort("the group was destroyed before a message had come through");
  const std::lock_guard lock(mutex_);
  protocol_.end(std::make_exception_ptr(DistError(group_was_destroyed)), settling.outcome);
}

// What a Work that has ended has sent is in the ring already; here go answers, and records of other Works.
void MemoryMessenger::flush(Deadline deadline) noexcept {
  for (;;) {
    const std::uint32_t seen = rings_.rings_seen();
    poll();
    {
      const std::lock_guard lock(mutex_);
      if (protocol_.has_ended()) return;
      if (!protocol_.has_waiting() || has_passed(deadline)) return protocol_.withdraw();
    }
    rings_.sleep(seen, deadline, [&] { return has_work(); });
  }
}

}  // namespace dlaunch::internal
