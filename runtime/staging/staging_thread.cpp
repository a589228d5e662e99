#include "runtime/staging/staging_thread.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/deadline.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

using std::chrono::microseconds;

// Between two looks at the device: a part of the time for which nothing has happened.
constexpr microseconds shortest_pause(20);
constexpr microseconds longest_pause(1000);
constexpr int looks_in_a_wait = 16;
constexpr microseconds idle_pause = std::chrono::hours(1);  // the bell rings before

}  // namespace

StagingThread::StagingThread(GroupEnd& end, std::function<void()> enter_thread)
    : end_(end), enter_thread_(std::move(enter_thread)) {}

StagingThread::~StagingThread() {
  stop();
  for (std::unique_ptr<StagedCall>& call : given_up_) (void)call.release();  // see come_to_rest()
}

void StagingThread::add(Running one) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_stopping_) {
      if (!thread_.joinable()) thread_ = start_thread([this] { run(); });
      one.is_counted = one.kind == Kind::collective;
      if (one.is_counted) ++not_started_;
      ++unfinished_;
      new_ones_.push_back(std::move(one));
      bell_->ring();
      return;
    }
  }
  one.source.fail(std::make_exception_ptr(DistNetworkError("the group was destroyed")));
}

void StagingThread::give_up(std::unique_ptr<StagedCall> call) {
  const std::lock_guard lock(mutex_);
  given_up_.push_back(std::move(call));
}

void StagingThread::await_start() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return not_started_ == 0; });
}

bool StagingThread::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] { return unfinished_ == 0; });
}

void StagingThread::stop() noexcept {
  end_.set(
      std::make_exception_ptr(DistNetworkError("the group was destroyed before the operation had ended")));
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  bell_->ring();
  if (thread_.joinable()) thread_.join();
}

bool StagingThread::come_to_rest(Deadline deadline) noexcept {
  while (!is_abandoned_) {
    if (bury()) return true;
    if (has_passed(deadline)) return false;
    bell_->wait(longest_pause);
  }
  return false;
}

void StagingThread::run() {
  if (enter_thread_) enter_thread_();
  std::list<Running> running;
  std::uint64_t rings = 0;
  auto last_change = std::chrono::steady_clock::now();
  for (;;) {
    bool has_changed = false;
    {
      const std::lock_guard lock(mutex_);
      has_changed = !new_ones_.empty();
      running.splice(running.end(), new_ones_);
      if (is_stopping_ && running.empty()) return;
    }
    if (end_.is_set()) {
      end_all(running);
    } else {
      has_changed |= advance_all(running);
    }
    const bool is_idle = running.empty() && (is_abandoned_ || bury());
    const auto now = std::chrono::steady_clock::now();
    if (has_changed) last_change = now;
    const auto waited = std::chrono::duration_cast<microseconds>(now - last_change);
    const microseconds pause = std::clamp(waited / looks_in_a_wait, shortest_pause, longest_pause);
    bell_->wait_from(rings, is_idle ? idle_pause : pause);
  }
}

bool StagingThread::advance_all(std::list<Running>& running) {
  std::array<StagedCall::Turn, 3> turns;  // by kind
  bool has_changed = false;
  for (auto one = running.begin(); one != running.end();) {
    StagedCall::Turn& turn = turns[static_cast<std::size_t>(one->kind)];
    bool has_ended = false;
    const std::size_t changes = one->call->changes();
    try {
      has_ended = one->call->advance(turn);
    } catch (...) {
      end_.set(std::current_exception());
      end_one(running, one, std::current_exception());
      end_all(running);
      return true;
    }
    if (one->call->has_started()) note_start(*one);
    turn.may_begin &= one->call->has_begun();
    turn.may_start &= one->call->has_started();
    has_changed |= has_ended || one->call->changes() != changes;
    const auto next = std::next(one);
    if (has_ended) end_one(running, one, nullptr);
    one = next;
  }
  return has_changed;
}

void StagingThread::note_start(Running& one) {
  if (!std::exchange(one.is_counted, false)) return;
  const std::lock_guard lock(mutex_);
  --not_started_;
  changed_.notify_all();
}

// Its callbacks may call members of this object.
void StagingThread::end_one(std::list<Running>& running, std::list<Running>::iterator one,
                            const std::exception_ptr& error) {
  note_start(*one);
  const WorkSource source = one->source;
  const int source_rank = one->call->source_rank();
  if (error) give_up(std::move(one->call));
  running.erase(one);
  if (error) {
    source.fail(error);
  } else if (source_rank >= 0) {
    source.succeed_from(source_rank);
  } else {
    source.succeed();
  }
  const std::lock_guard lock(mutex_);
  --unfinished_;
  changed_.notify_all();
}

void StagingThread::end_all(std::list<Running>& running) {
  std::exception_ptr reason;
  try {
    end_.throw_if_set();
  } catch (...) {
    reason = std::current_exception();
  }
  while (!running.empty()) end_one(running, running.begin(), reason);
}

bool StagingThread::bury() {
  std::list<std::unique_ptr<StagedCall>> at_rest;
  const std::lock_guard lock(mutex_);
  for (auto call = given_up_.begin(); call != given_up_.end();) {
    const auto next = std::next(call);
    if ((*call)->is_at_rest()) at_rest.splice(at_rest.end(), given_up_, call);
    call = next;
  }
  return given_up_.empty();
}

}  // namespace dlaunch::internal
