#include "runtime/work_queue.h"

#include <utility>

namespace dlaunch {

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::post(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  changed_.notify_all();
}

void WorkQueue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return idle(); });
}

void WorkQueue::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    running_ = true;
    lock.unlock();
    job();
    job = nullptr;  // what it holds goes before anybody is told that it has ended
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace dlaunch
