#include "runtime/rpc/polling_threads.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "dlaunch/error.h"
#include "runtime/base/log.h"
#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

thread_local bool is_polling_thread = false;
thread_local bool handles_events = false;

// So often relieve() looks at a batch before it takes the rest back, however fast it moves.
constexpr int most_looks = 8;
// If so many threads do not get on, each task that waits gets one. A few may only have lost their processors.
constexpr int most_stuck = 3;

Descriptor checked(Descriptor descriptor) {
  if (!descriptor.is_open())
    throw DistBackendError("cannot begin remote calls: " + std::generic_category().message(errno));
  return descriptor;
}

}  // namespace

bool PollingThreads::is_one_of_them() { return is_polling_thread; }

PollingThreads::PollingThreads(int most_tasks)
    : poll_(checked(Descriptor([] { return epoll_create1(EPOLL_CLOEXEC); }))),
      wakeup_(checked(Descriptor([] { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }))),
      most_tasks_(most_tasks) {
  watch(wakeup_.get(), own_token);
}

void PollingThreads::watch(int fd, std::uint64_t token) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = token;
  epoll_ctl(poll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void PollingThreads::start(OnEvent on_event, Look look) {
  on_event_ = std::move(on_event);
  look_ = std::move(look);
  const std::lock_guard lock(mutex_);
  start_thread([self = shared_from_this()] { self->run(); }).detach();
  ++threads_;
}

void PollingThreads::post(Task task) {
  std::vector<Task> one;
  one.push_back(std::move(task));
  post(std::move(one));
}

void PollingThreads::post(std::vector<Task> tasks, bool are_short) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  are_short_ = are_short && handles_events;
  std::ranges::move(tasks, std::back_inserter(tasks_));
  thread_is_needed_ = is_needed();
  // The thread that handles events takes one itself, right after them.
  if (!handles_events || (tasks_.size() > 1 && !are_short_)) wake_another();
}

void PollingThreads::gather() {
  const std::lock_guard lock(mutex_);
  are_short_ = true;
}

bool PollingThreads::relieve(bool are_short) {
  const std::lock_guard lock(mutex_);
  are_short_ = are_short_ && are_short;
  bool others_wait = are_short_ && !tasks_.empty();
  bool is_stuck = others_wait && taken_ == std::exchange(taken_before_, taken_);
  const bool are_many = std::ranges::count_if(batches_, &Batch::is_taken_back) >= most_stuck;
  for (Batch* const batch : batches_) {
    const std::size_t begun = batch->begun;
    if (begun >= batch->tasks.size()) continue;
    others_wait = true;
    const bool moves = begun != std::exchange(batch->begun_before, begun);
    if (moves && ++batch->looked_at < most_looks) continue;
    take_back(*batch, tasks_);
    is_stuck = true;
  }
  if (!is_stuck) return others_wait;
  are_short_ = are_short_ && !are_many;
  thread_is_needed_ = is_needed();
  wake_another();
  return true;
}

// Those that have not begun come first again. REQUIRES: mutex_ is held.
void PollingThreads::take_back(Batch& batch, std::deque<Task>& to) {
  const std::size_t size = batch.tasks.size();
  const std::size_t first = std::min(batch.begun.exchange(size), size);
  batch.is_taken_back = true;
  for (std::size_t i = size; i > first; --i) to.push_front(std::move(batch.tasks[i - 1]));
}

// REQUIRES: mutex_ is held.
void PollingThreads::wake_another() {
  if (running_ == most_tasks_) return;
  if (idle_ > 0) eventfd_write(wakeup_.get(), 1);
}

bool PollingThreads::stop(Deadline deadline) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  thread_is_needed_ = true;
  std::deque<Task> dropped = std::exchange(tasks_, {});
  for (Batch* const batch : batches_) take_back(*batch, dropped);
  lock.unlock();
  dropped.clear();  // their destructors may call
  lock.lock();
  if (idle_ > 0) eventfd_write(wakeup_.get(), 1);
  return ended_.wait_until(lock, deadline, [&] { return threads_ == 0; });
}

void PollingThreads::run() {
  is_polling_thread = true;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!tasks_.empty() && running_ < most_tasks_) {
      run_tasks(lock);
    } else {
      wait_for_events(lock);
    }
  }
  if (idle_ > 0) eventfd_write(wakeup_.get(), 1);  // the next one ends, too
  if (--threads_ > 0) return;
  ended_.notify_all();
  const OnEvent last = std::exchange(on_event_, nullptr);  // it may own what owns this
  look_ = nullptr;
  lock.unlock();
}

// One, or all that wait if they are short.
void PollingThreads::run_tasks(std::unique_lock<std::mutex>& lock) {
  Batch batch;
  if (are_short_) {
    batch.tasks.swap(tasks_);
  } else {
    batch.tasks.push_back(std::move(tasks_.front()));
    tasks_.pop_front();
  }
  batches_.push_back(&batch);
  ++taken_;
  ++running_;
  thread_is_needed_ = is_needed();
  start_thread_if_needed();
  if (!tasks_.empty()) wake_another();
  lock.unlock();
  run_all(batch);
  lock.lock();
  std::erase(batches_, &batch);
  --running_;
  thread_is_needed_ = is_needed();
}

void PollingThreads::run_all(Batch& batch) {
  const std::size_t size = batch.tasks.size();
  for (std::size_t i = batch.begun++; i < size; i = batch.begun++) {
    batch.tasks[i]();
    batch.tasks[i].reset();
  }
}

// So that one thread at least runs no task, and waiting tasks get threads. REQUIRES: mutex_ is held.
void PollingThreads::start_thread_if_needed() {
  const bool others_wait = !tasks_.empty() && !are_short_ && idle_ == 0 && threads_ <= most_tasks_;
  if (threads_ > running_ && !others_wait) return;
  try {
    start_thread([self = shared_from_this()] { self->run(); }).detach();
    ++threads_;
  } catch (const DistBackendError& e) {
    log(LogLevel::warning, "remote calls go on with fewer threads: " + e.reason());
  }
}

void PollingThreads::look(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  handles_events = true;
  const auto needed = [this] { return thread_is_needed_.load(std::memory_order_relaxed); };
  look_(needed);
  handles_events = false;
  lock.lock();
}

void PollingThreads::wait_for_events(std::unique_lock<std::mutex>& lock) {
  std::array<epoll_event, 16> events;
  if (look_) look(lock);
  if (is_needed()) return;
  ++idle_;
  lock.unlock();
  const int count = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), -1);
  lock.lock();
  --idle_;
  lock.unlock();
  handles_events = true;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == own_token) {
      eventfd_t rung = 0;
      eventfd_read(wakeup_.get(), &rung);
    } else {
      on_event_(event.data.u64, event.events);
    }
  }
  handles_events = false;
  lock.lock();
}

}  // namespace dlaunch::internal
