#include "runtime/backend/operation_queue.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

namespace {

using Memory = std::vector<std::span<const std::byte>>;

bool share_memory(const Memory& one, const Memory& other) {
  const std::less<const std::byte*> before;
  return std::ranges::any_of(one, [&](std::span<const std::byte> a) {
    return std::ranges::any_of(other, [&](std::span<const std::byte> b) {
      return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
    });
  });
}

}  // namespace

OperationQueue::~OperationQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    posted_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void OperationQueue::post(Operation operation) {
  const std::lock_guard lock(mutex_);
  if (!is_running_) {
    if (thread_.joinable()) thread_.join();  // it has found no work and is about to end
    thread_ = start_thread([this] { work(); });
    is_running_ = true;
  }
  operations_.push_back(std::move(operation));
  unfinished_.fetch_add(1, std::memory_order_relaxed);
  posted_.notify_all();
}

void OperationQueue::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return operations_.empty(); });
}

bool OperationQueue::drain(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return idle_.wait_until(lock, deadline, [this] { return operations_.empty(); });
}

void OperationQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    posted_.wait_for(lock, idle_limit, [this] { return ending_ || !operations_.empty(); });
    if (operations_.empty()) {
      is_running_ = false;
      return;
    }
    while (Operation* const next = next_to_begin()) {
      ++begun_;
      lock.unlock();
      next->begin();
      lock.lock();
    }
    Operation& first = operations_.front();
    lock.unlock();
    first.finish();
    lock.lock();
    if (begun_ > 0) --begun_;
    operations_.pop_front();
    unfinished_.fetch_sub(1, std::memory_order_release);
    if (operations_.empty()) idle_.notify_all();
  }
}

// With mutex_ held.
OperationQueue::Operation* OperationQueue::next_to_begin() {
  if (begun_ == std::min(operations_.size(), begun_at_once)) return nullptr;
  Operation& next = operations_[begun_];
  if (!next.begin) return nullptr;
  for (std::size_t i = 0; i < begun_; ++i) {
    if (share_memory(operations_[i].memory, next.memory)) return nullptr;
  }
  return &next;
}

}  // namespace dlaunch::internal
