// How a thread of the program waits for the endpoint's thread.
#pragma once

#include <condition_variable>
#include <mutex>

#include "dlaunch/backend.h"

namespace dlaunch::internal {

// The endpoint's mutex, locked.
using EndpointLock = std::unique_lock<std::mutex>;

// Threads wait on it. Protected by the endpoint's mutex.
class Wakeup {
 public:
  void wake() {
    if (waits_ > 0) changed_.notify_all();
  }

  // False when the deadline has passed and `condition()` does not hold.
  template <class Condition>
  bool wait(EndpointLock& lock, Deadline deadline, const Condition& condition) {
    bool is_so = condition();
    while (!is_so) {
      ++waits_;
      const bool is_over = sleep(lock, deadline);
      --waits_;
      is_so = condition();
      if (is_over) break;
    }
    return is_so;
  }

 private:
  bool sleep(EndpointLock& lock, Deadline deadline) {
    if (deadline != Deadline::max()) return changed_.wait_until(lock, deadline) == std::cv_status::timeout;
    changed_.wait(lock);
    return false;
  }

  std::condition_variable changed_;
  int waits_ = 0;
};

}  // namespace dlaunch::internal
