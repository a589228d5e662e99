#include "runtime/backends/nccl/nccl_watchdog.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

using std::chrono::microseconds;

// Between two looks: short after something has happened, then longer and longer.
constexpr microseconds shortest_pause(20);
constexpr microseconds longest_pause(1000);
// After the last operation has ended: how long the thread looks for others, and how often.
constexpr microseconds stays_awake(2000);
constexpr microseconds pause_without_work(50);
// Of the kernel's timers: its default would make the shortest pause three times as long.
constexpr unsigned long timer_slack_ns = 1000;
// Between two checks for errors, which may keep a call of the program waiting.
constexpr microseconds check_interval(1000);

}  // namespace

void NcclWatchdog::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    // Together: the thread would take the end alone for a failure of the group, which may end the process.
    end_.set(
        std::make_exception_ptr(DistNetworkError("the group was destroyed before the operation had ended")));
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void NcclWatchdog::start() {
  if (!thread_.joinable() && !is_stopping_) thread_ = start_thread([this] { run(); });
}

// The thread declares that it sleeps before it looks, and this one looks after it has declared itself.
NcclWatchdog::Inside::Inside(NcclWatchdog& watchdog, std::uint64_t sequence, Deadline deadline)
    : watchdog_(watchdog) {
  watchdog.inside_sequence_ = sequence;
  watchdog.inside_until_ = std::min(deadline, nobody - std::chrono::nanoseconds(1));
  if (!watchdog.is_asleep_) return;
  const std::lock_guard lock(watchdog.mutex_);
  watchdog.start();
  watchdog.changed_.notify_all();
}

// As Inside: it has pushed before it looks whether the thread sleeps.
void NcclWatchdog::watch_next() {
  running_.push();
  if (!is_asleep_) return;
  const std::lock_guard lock(mutex_);
  start();
  changed_.notify_all();
}

void NcclWatchdog::wake() noexcept {
  const std::lock_guard lock(mutex_);
  try {
    start();
  } catch (const std::exception&) {  // no thread: the destructor aborts what has been started
  }
  changed_.notify_all();
}

bool NcclWatchdog::has_work() const {
  return running_.size() > 0 || (!failure_ && inside_until_.load() != nobody);
}

bool NcclWatchdog::has_to_give_up() const { return end_.is_set() && !failure_ && !is_stopping_; }

bool NcclWatchdog::has_only_to_end() {
  const std::lock_guard lock(mutex_);
  return is_stopping_ && running_.size() == 0;
}

bool NcclWatchdog::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return running_.size() == 0; });
}

void NcclWatchdog::run() {
  (void)prctl(PR_SET_TIMERSLACK, timer_slack_ns);
  outside_.enter_thread();
  microseconds length = shortest_pause;
  while (wait_for_work()) {
    if (failure_) {
      fail_running();
      continue;
    }
    try {
      const std::size_t ended = count_ended();
      complete(ended);
      report_begun();
      if (ended == 0) check_running();
      length = ended > 0 ? shortest_pause : std::min(2 * length, longest_pause);
    } catch (...) {
      if (!has_only_to_end()) end_group(std::current_exception());
      continue;
    }
    pause(length);
  }
}

bool NcclWatchdog::wait_for_work() {
  std::unique_lock lock(mutex_);
  // A program that starts one operation after another need not wake this thread each time.
  const Deadline awake_until = std::chrono::steady_clock::now() + stays_awake;
  while (!has_work() && !is_stopping_ && !has_to_give_up() && std::chrono::steady_clock::now() < awake_until)
    changed_.wait_for(lock, pause_without_work, [this] { return is_stopping_ || has_to_give_up(); });
  is_asleep_ = true;
  changed_.wait(lock, [this] { return is_stopping_ || has_work() || has_to_give_up(); });
  is_asleep_ = false;
  return !is_stopping_ || running_.size() > 0 || has_to_give_up();
}

// They end in order. A query takes a lock of the driver, which the program's calls need, too: so it asks for
// the last one first, and then for those halfway.
std::size_t NcclWatchdog::count_ended() {
  std::size_t ended = 0;
  std::size_t not_ended = running_.size();  // the first that is known not to have ended
  for (std::size_t next = not_ended; ended < not_ended; next = ended + (not_ended - ended + 1) / 2) {
    if (outside_.is_reached(running_.at(next - 1).end)) {
      ended = next;
    } else {
      not_ended = next - 1;
    }
  }
  return ended;
}

// Those that were started together have one event.
void NcclWatchdog::report_begun() {
  const std::size_t size = running_.size();
  if (size == 0 || !running_.at(0).awaits_begin) return;
  const CudaEvent& begin = running_.at(0).begin;
  if (!outside_.is_reached(begin)) return;
  for (std::size_t i = 0; i < size; ++i) {
    Watched& one = running_.at(i);
    if (one.begin != begin) break;
    one.awaits_begin = false;
    one.source ? one.source->begin() : one.unseen.observer->on_begin(one.unseen);
  }
}

void NcclWatchdog::complete(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Watched& one = running_.at(i);
    if (!one.source) {
      one.unseen.observer->on_end(one.unseen, nullptr);
    } else if (one.sender >= 0) {
      one.source->succeed_from(one.sender);
    } else {
      one.source->succeed();
    }
  }
  release(count);
}

void NcclWatchdog::fail_running() {
  const std::size_t count = running_.size();
  for (std::size_t i = 0; i < count; ++i) {
    Watched& one = running_.at(i);
    if (!one.source) {
      one.unseen.observer->on_end(one.unseen, failure_);
    } else {
      one.source->fail(failure_);
      one.source.reset();  // now: an error that no call has seen is logged at the end of the last Work
    }
  }
  release(count);
}

void NcclWatchdog::release(std::size_t count) {
  if (count == 0) return;
  running_.release(count);
  if (running_.size() > 0) return;
  const std::lock_guard lock(mutex_);  // for drain()
  changed_.notify_all();
}

void NcclWatchdog::check_running() {
  end_.throw_if_set();
  const Deadline now = std::chrono::steady_clock::now();
  if (now < next_check_) return;
  next_check_ = now + check_interval;
  outside_.check();
  if (const Deadline until = inside_until_; until != nobody && has_passed(until)) {
    outside_.explain_delay(inside_sequence_);
    throw DistNetworkError(
        "the call of NCCL has not returned before the deadline of the operation: it may wait for another "
        "rank "
        "to connect");
  }
  const std::size_t size = running_.size();
  if (size == 0) return;
  std::size_t first = 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (running_.at(i).deadline < running_.at(first).deadline) first = i;
  }
  const Watched& most_urgent = running_.at(first);
  if (!has_passed(most_urgent.deadline)) return;
  outside_.explain_delay(most_urgent.sequence);
  throw DistNetworkError(most_urgent.awaits_begin
                             ? "the GPU has not come to the operation before its deadline: it still works on "
                               "what was started before it"
                             : "the operation has not ended on the GPU before its deadline: a rank has not "
                               "come, or its GPU still works on something else");
}

void NcclWatchdog::pause(microseconds length) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, length, [this] { return is_stopping_ || end_.is_set(); });
}

void NcclWatchdog::end_group(std::exception_ptr reason) {
  end_.set(reason);
  failure_ = outside_.give_up(std::move(reason));
  fail_running();
  outside_.after_failure(failure_);
}

}  // namespace dlaunch::internal
