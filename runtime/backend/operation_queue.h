// Runs the operations of a group one after another, in the order of the calls.
//
// A short operation mostly waits for other ranks. So an operation that can be cut in two has a beginning,
// which sends what is known already. While one operation waits, the next ones have begun, and the ranks find
// each other's messages when they reach them. This is not visible: an operation that shares memory with an
// earlier unfinished one does not begin early.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// One call at a time. post() starts a thread, which ends after `idle_limit` without work: the number of
// threads grows with the groups in use, not with all groups. A program that posts nothing has no thread
// and never switches to one. Functions must not throw or call back.
class OperationQueue {
 public:
  static constexpr std::chrono::milliseconds idle_limit{1000};
  // Most operations that have begun and not finished.
  static constexpr std::size_t begun_at_once = 3;

  struct Operation {
    // Empty: the operation is whole, and no later one begins before it has finished.
    std::function<void()> begin = {};
    std::function<void()> finish = {};
    std::vector<std::span<const std::byte>> memory = {};  // that it reads and writes, if it has a beginning
  };

  OperationQueue() = default;
  ~OperationQueue();  // runs what was posted, then ends the thread
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Before an operation that this thread runs itself: returns when everything before it has finished.
  void drain_before() {
    if (unfinished_.load(std::memory_order_acquire) > 0) drain();
  }

  // Returns at once.
  void post(Operation operation);

  // Returns when everything has finished.
  void drain();
  // The same with a deadline. False: the deadline has passed.
  bool drain(Deadline deadline);

 private:
  void work();
  Operation* next_to_begin();

  std::atomic<std::size_t> unfinished_ = 0;  // operations; changed with mutex_ held
  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  // protected by mutex_
  std::deque<Operation> operations_;  // unfinished, in order; they stay where they are
  std::size_t begun_ = 0;             // the first ones of them
  bool ending_ = false;
  bool is_running_ = false;  // the thread: it runs what is posted
  std::thread thread_;
};

}  // namespace dlaunch::internal
