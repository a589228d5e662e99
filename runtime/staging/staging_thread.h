// The thread that looks after the calls of a group on device memory, each a StagedCall: collectives start in
// the order of the program's calls, sends in theirs, and neither waits for the other. It starts with the
// first call and sleeps while there are none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "dlaunch/work.h"
#include "runtime/base/group_end.h"
#include "runtime/staging/staged_call.h"

namespace dlaunch::internal {

// Any thread may call the members.
class StagingThread {
 public:
  enum class Kind : std::uint8_t { collective, send, receive };
  struct Running {
    Kind kind;
    std::unique_ptr<StagedCall> call;
    WorkSource source;
    bool is_counted = false;  // by the thread: among those that have not started
  };

  // `end`: of the group; lives longer. `enter_thread`: what the thread calls first.
  StagingThread(GroupEnd& end, std::function<void()> enter_thread);
  ~StagingThread();
  StagingThread(const StagingThread&) = delete;
  StagingThread& operator=(const StagingThread&) = delete;

  // After the end of the group its Work fails at once.
  void add(Running one);
  // A call that has failed, and whose memory may still be in use.
  void give_up(std::unique_ptr<StagedCall> call);
  // Returns when all collectives have started on host memory, or failed. Costs next to nothing if there are
  // none.
  void wait_until_started() {
    if (not_started_ != 0) await_start();
  }
  // Something has changed: a call on host memory has ended, or the end of the group was set.
  void wake() noexcept { bell_->ring(); }
  // May outlive the thread.
  [[nodiscard]] std::function<void()> waker() const {
    return [bell = bell_] { bell->ring(); };
  }
  // The same for a thread of the program that carries a call out: waits a short time for a change.
  void pause(std::chrono::microseconds length) { bell_->wait(length); }
  // Whether all calls have ended before the deadline.
  bool drain(Deadline deadline);
  // Running calls end with an error, and the thread has ended when it returns. Again: does nothing.
  void stop() noexcept;
  // After stop(): whether nothing uses the memory of given up calls any more, before the deadline. Otherwise
  // it stays in use until the process ends.
  bool come_to_rest(Deadline deadline) noexcept;
  // The process ends: nothing is asked of CUDA any more.
  void abandon() noexcept { is_abandoned_ = true; }

 private:
  class Bell {
   public:
    void ring() noexcept {
      const std::lock_guard lock(mutex_);
      ++rings_;
      changed_.notify_all();
    }
    // Until it rings, at most for this time.
    void wait(std::chrono::microseconds length) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, length, [this, before = rings_] { return rings_ != before; });
    }
    // Until it has rung more often.
    void wait_from(std::uint64_t& seen, std::chrono::microseconds length) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, length, [&] { return rings_ != seen; });
      seen = rings_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t rings_ = 0;  // protected by mutex_
  };

  void await_start();
  void run();
  // True: something has happened.
  bool advance_all(std::list<Running>& running);
  void end_one(std::list<Running>& running, std::list<Running>::iterator one,
               const std::exception_ptr& error);
  void end_all(std::list<Running>& running);
  void note_start(Running& one);
  // Destroys calls that were given up; true: there are none left.
  bool bury();

  GroupEnd& end_;
  const std::function<void()> enter_thread_;
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  std::atomic<int> not_started_ = 0;  // collectives; written with mutex_ held
  std::atomic<bool> is_abandoned_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::list<Running> new_ones_;
  std::list<std::unique_ptr<StagedCall>> given_up_;
  std::size_t unfinished_ = 0;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace dlaunch::internal
