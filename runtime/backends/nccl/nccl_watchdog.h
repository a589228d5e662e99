// The operations of a group that have been started on its stream, and the thread that looks after them: it
// completes their Works in the order in which they were started, and gives the group up if one is late, NCCL
// reports an error, or a rank is lost; also while a thread is inside NCCL to start one. One thread a group;
// it sleeps while there are none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "dlaunch/backend.h"
#include "runtime/base/group_end.h"
#include "runtime/base/slot_queue.h"
#include "runtime/cuda/cuda_events.h"

namespace dlaunch::internal {

class NcclWatchdog {
 public:
  struct Watched {
    std::uint64_t sequence = 0;  // 0: a message
    Deadline deadline = {};
    CudaEvent begin = {};
    bool awaits_begin = false;  // somebody wants to know when the device comes to it
    CudaEvent end = {};
    std::optional<WorkSource> source = {};  // none: `unseen`
    int sender = -1;                        // of a receive
    UnseenOperation unseen = {};
  };
  // What it asks and does; its thread calls these, without a lock held.
  struct Outside {
    std::function<void()> enter_thread;                // once
    std::function<bool(const CudaEvent&)> is_reached;  // may throw
    std::function<void()> check;                       // throws if NCCL or the control plane reports an error
    // Of the operation with this number (0: a message), which is late: throws the reason.
    std::function<void(std::uint64_t sequence)> explain_delay;
    std::function<std::exception_ptr(std::exception_ptr)>
        give_up;  // aborts; what to report in place of the reason
    // The running operations have ended with this error. What it throws ends the process.
    std::function<void(const std::exception_ptr&)> after_failure;
  };

  // `end`: of the group; lives longer.
  NcclWatchdog(GroupEnd& end, Outside outside) : end_(end), outside_(std::move(outside)) {}
  ~NcclWatchdog() { stop(); }
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

  // As long as it lives, its thread is inside NCCL to start an operation. One at a time.
  class Inside {
   public:
    Inside(NcclWatchdog& watchdog, std::uint64_t sequence, Deadline deadline);
    ~Inside() { watchdog_.inside_until_ = nobody; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    NcclWatchdog& watchdog_;
  };

  // One thread at a time, in the order of the stream. After the end of the group the operation fails. Costs
  // no system call and no lock as long as there was another one a moment ago. What it owns is kept until
  // later ones need its place.
  void watch(Watched one) {
    next() = std::move(one);
    watch_next();
  }
  // The same in two steps, for one that is written in place: it has what an earlier one had there.
  Watched& next() { return running_.next(); }
  void watch_next();
  // The end of the group was set: also without running operations it gives up, since one may be about to
  // start.
  void wake() noexcept;
  // Running operations end with an error, and the thread has ended when it returns. Again: does nothing.
  void stop() noexcept;
  // Whether all have ended before the deadline.
  bool drain(Deadline deadline);

 private:
  static constexpr Deadline nobody = Deadline::max();

  void run();
  // Returns whether there is something to do; false: the thread has to end.
  bool wait_for_work();
  [[nodiscard]] bool has_to_give_up() const;
  [[nodiscard]] bool has_work() const;
  // True: the group is being destroyed, and no operation runs. Then the end of the group is not a failure.
  [[nodiscard]] bool has_only_to_end();
  void start();  // with the mutex held
  // How many of the first ones have ended.
  std::size_t count_ended();
  // The device has come to the first ones.
  void report_begun();
  void complete(std::size_t count);
  void fail_running();
  void release(std::size_t count);
  // Throws why the group has to end.
  void check_running();
  void pause(std::chrono::microseconds length);
  void end_group(std::exception_ptr reason);

  GroupEnd& end_;
  const Outside outside_;
  Deadline next_check_{};  // of its thread
  // Of the operation that a thread is about to start.
  std::atomic<std::uint64_t> inside_sequence_ = 0;  // written before the next
  std::atomic<Deadline> inside_until_ = nobody;

  SlotQueue<Watched> running_;  // from watch() to the thread
  std::exception_ptr failure_;  // of all that comes; the thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;            // protected by mutex_
  std::atomic<bool> is_asleep_ = true;  // the thread, until it is notified; there may be none yet
  std::thread thread_;                  // started with mutex_ held
};

}  // namespace dlaunch::internal
