// Runs the operations of a group one after another, in the order in which they came.
//
// Most of a short operation is waiting for other ranks. So those that can be cut in two have a beginning,
// which sends what is known already, and while one operation waits, the next ones have begun: the ranks find
// each other's messages there when they come to them. Nobody can tell the difference: an operation that
// shares memory with an unfinished one before it does not begin early.
#pragma once

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

namespace dlaunch {

// One call at a time. post() starts a thread, which ends when nothing has come for `idle_limit`: threads grow
// with the groups that are in use, not with their number. A program that only calls run() never has one, and
// pays no switch between threads. Functions must not throw or call back.
class OperationQueue {
 public:
  static constexpr std::chrono::milliseconds idle_limit{1000};
  // So many may have begun and not finished.
  static constexpr std::size_t begun_at_once = 3;

  struct Operation {
    // Empty: the operation is whole, and none behind it begins before it has finished.
    std::function<void()> begin = {};
    std::function<void()> finish = {};
    std::vector<std::span<const std::byte>> memory = {};  // what it reads and writes, if it has a beginning
  };

  OperationQueue() = default;
  ~OperationQueue();  // runs what was posted, then ends the thread
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  // Runs it on this thread, when everything before it has finished.
  void run(const std::function<void()>& operation);

  // Returns at once.
  void post(Operation operation);

  // Returns when everything has finished.
  void drain();
  // The same, or the deadline has passed; which of the two.
  bool drain(Deadline deadline);

 private:
  void work();
  Operation* next_to_begin();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::condition_variable idle_;
  // protected by mutex_
  std::deque<Operation> operations_;  // unfinished, in order; they stay where they are
  std::size_t begun_ = 0;             // of them, the first ones
  bool ending_ = false;
  bool is_running_ = false;  // the thread: it takes what is posted
  std::thread thread_;
};

}  // namespace dlaunch
