#include "runtime/backends/nccl/nccl_watchdog.h"

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
// Between two checks for errors, which may keep a call of the program waiting.
constexpr microseconds between_checks(1000);

}  // namespace

void NcclWatchdog::stop() noexcept {
  end_.set(
      std::make_exception_ptr(DistNetworkError("the group was destroyed before the operation had ended")));
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void NcclWatchdog::watch(Watched one) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) {
      if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
      running_.push_back(std::move(one));
      if (running_.size() == 1) changed_.notify_all();  // else it looks from time to time anyway
      return;
    }
  }
  one.source.fail(failure_);
}

void NcclWatchdog::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool NcclWatchdog::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return running_.empty(); });
}

void NcclWatchdog::run() {
  outside_.enter_thread();
  microseconds pause = shortest_pause;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (running_.empty()) {
      if (is_stopping_) return;
      changed_.wait(lock, [this] { return is_stopping_ || !running_.empty(); });
      pause = shortest_pause;
      continue;
    }
    const Watched first = running_.front();
    const Watched most_urgent = *std::ranges::min_element(running_, {}, &Watched::deadline);
    lock.unlock();
    std::exception_ptr failure;
    bool has_ended = false;
    try {
      has_ended = look(first, most_urgent);
    } catch (...) {
      failure = std::current_exception();
    }
    if (failure) end_group(failure);
    lock.lock();
    if (has_ended) {
      running_.pop_front();
      changed_.notify_all();
      lock.unlock();
      if (first.sender >= 0) {
        first.source.succeed_from(first.sender);
      } else {
        first.source.succeed();
      }
      lock.lock();
      pause = shortest_pause;
    } else if (!failure) {
      changed_.wait_for(lock, pause, [this] { return is_stopping_ || end_.is_set(); });
      pause = std::min(2 * pause, longest_pause);
    }
  }
}

bool NcclWatchdog::look(const Watched& first, const Watched& most_urgent) {
  if (outside_.is_reached(first.end)) return true;
  end_.throw_if_set();
  const Deadline now = std::chrono::steady_clock::now();
  if (now < next_check_) return false;
  next_check_ = now + between_checks;
  outside_.check();
  if (!has_passed(most_urgent.deadline)) return false;
  outside_.explain_delay(most_urgent);
  throw DistNetworkError(
      "the operation has not ended on the GPU before its deadline: a rank has not come, or the GPU still "
      "works on "
      "what was started before it");
}

void NcclWatchdog::end_group(std::exception_ptr reason) {
  end_.set(reason);
  reason = outside_.give_up(std::move(reason));
  std::deque<Watched> ended;
  {
    const std::lock_guard lock(mutex_);
    failure_ = reason;
    ended.swap(running_);
    changed_.notify_all();
  }
  for (const Watched& one : ended) one.source.fail(reason);
}

}  // namespace dlaunch::internal
