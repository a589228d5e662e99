// A thread that starts when it is needed and ends when it has not been needed for a while: the number of
// threads grows with the objects in use, not with all objects.
//
// The owner's work decides when to end, because only the work knows whether more may come. It does so in
// three steps: was_unused(), a last look for work, end_if_unused(). A call between the first and the last
// step keeps the thread; a call after the last starts another one.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/start_thread.h"

namespace dlaunch::internal {

// Any thread may call, except where a comment restricts it to the work.
class ThreadOnDemand {
 public:
  // `work` runs on the thread. It must not throw.
  explicit ThreadOnDemand(std::function<void()> work) : work_(std::move(work)) {}
  ~ThreadOnDemand() { join(); }
  ThreadOnDemand(const ThreadOnDemand&) = delete;
  ThreadOnDemand& operator=(const ThreadOnDemand&) = delete;

  // While it exists, the thread runs and end_if_unused() does not end it.
  class Use {
   public:
    // Throws as start().
    explicit Use(ThreadOnDemand& owner) : owner_(owner) {
      const std::lock_guard lock(owner_.mutex_);
      owner_.ensure_thread();
      ++owner_.uses_;
    }
    ~Use() {
      const std::lock_guard lock(owner_.mutex_);
      --owner_.uses_;
      owner_.was_used_ = true;
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ThreadOnDemand& owner_;
  };

  // As a Use that ends at once. Throws DistBackendError if no thread can be created. Calls nothing that takes
  // a lock, so the caller may hold one.
  void start() {
    const std::lock_guard lock(mutex_);
    ensure_thread();
    was_used_ = true;
  }

  // For the work. Whether there is no Use, and none was since the last call.
  [[nodiscard]] bool was_unused() {
    const std::lock_guard lock(mutex_);
    return !std::exchange(was_used_, false) && uses_ == 0;
  }
  // For the work. True: there was no Use since was_unused(), so the work must return and touch nothing of its
  // owner.
  [[nodiscard]] bool end_if_unused() {
    const std::lock_guard lock(mutex_);
    if (was_used_ || uses_ > 0) return false;
    runs_ = false;
    return true;
  }

  // Returns when the thread has ended; no thread is started afterwards. REQUIRES: there is no Use, and the
  // work has been made to return. Called by one thread.
  void join() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  // With mutex_ held.
  void ensure_thread() {
    if (runs_ || closed_) return;
    if (thread_.joinable()) thread_.join();  // its last step was end_if_unused()
    thread_ = start_thread(work_);
    runs_ = true;
  }

  const std::function<void()> work_;
  std::mutex mutex_;
  // protected by mutex_
  int uses_ = 0;
  bool was_used_ = false;
  bool runs_ = false;  // false: the thread, if there is one, has finished its work
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace dlaunch::internal
