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
#include <span>
#include <thread>
#include <vector>

#include "dlaunch/backend.h"
#include "runtime/base/group_end.h"
#include "runtime/cuda/cuda_events.h"

namespace dlaunch::internal {

class NcclWatchdog {
 public:
  struct Watched {
    std::uint64_t sequence;  // 0: a message
    Deadline deadline;
    CudaEvent begin;  // null: it is not asked for, or has been reached
    CudaEvent end;
    WorkSource source;
    int sender = -1;  // of a receive
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

  // One thread at a time, in the order of the stream. After the end of the group the Work fails at once.
  // Costs no system call as long as there was another one a moment ago.
  void watch(Watched one);
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
  // With the mutex held.
  [[nodiscard]] std::span<Watched> running() { return std::span(running_).subspan(ended_places_); }
  [[nodiscard]] bool has_to_give_up() const;
  [[nodiscard]] bool has_work() const;
  void remove_first(std::size_t count);
  void start();
  // How many of the first ones have ended.
  std::size_t count_ended();
  CudaEvent end_at(std::size_t index);
  // The device has come to the first ones.
  void report_begun();
  void complete(std::size_t count);
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

  std::mutex mutex_;
  std::condition_variable changed_;
  // protected by mutex_
  std::vector<Watched> running_;  // the first `ended_places_` are empty
  std::size_t ended_places_ = 0;
  // Those since the latest watch(), which destroys them: memory that one thread allocates and another one
  // frees costs both locks.
  std::vector<Watched> ended_;
  bool is_stopping_ = false;
  std::atomic<bool> is_asleep_ = true;  // the thread, until it is notified; there may be none yet
  std::exception_ptr failure_;          // of all that comes
  std::thread thread_;

  std::vector<Watched> to_destroy_;  // of watch()
};

}  // namespace dlaunch::internal
