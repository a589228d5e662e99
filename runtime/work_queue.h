// Runs jobs one after another, in the order in which they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace dlaunch {

// On a thread that is started by the first post(). Any thread may call. Jobs must not throw or call back into
// the queue.
class WorkQueue {
 public:
  using Job = std::function<void()>;

  WorkQueue() = default;
  ~WorkQueue();  // runs what is queued, then ends the thread
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // Returns at once.
  void post(Job job);

  // Returns when nothing is queued or running.
  void drain();

 private:
  void work();
  [[nodiscard]] bool idle() const { return !running_ && jobs_.empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::deque<Job> jobs_;
  bool running_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace dlaunch
